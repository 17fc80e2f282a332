# llama.cpp, built once into the cache from the source that the llama-cpp-python sdist carries. Sourced by ./dev.

llama_version=0.3.36
llama_sdist=llama_cpp_python-$llama_version.tar.gz
llama_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

# Static, no OpenMP (its spinning threads double a step's time on shared cores), no llamafile kernels (their results depend on
# the batch size, and exactness rests on batch invariance).
llama_flags=(
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
    -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_LLAMAFILE=OFF -DGGML_CCACHE=OFF
)

# The instruction sets of this CPU, named one by one: GGML_NATIVE would add AMX, which crashes, and AVX512_BF16, which gcc 12 rejects.
llama_cpu_flags() {
    [[ $(uname -m) == x86_64 ]] || return 0
    local have=" $(grep -m 1 '^flags' /proc/cpuinfo | cut -d : -f 2) " pair option needs need on
    for pair in AVX:avx AVX2:avx2 FMA:fma F16C:f16c BMI2:bmi2 SSE42:sse4_2 \
        AVX512:avx512f,avx512cd,avx512bw,avx512dq,avx512vl AVX512_VBMI:avx512f,avx512_vbmi AVX512_VNNI:avx512f,avx512_vnni; do
        option=${pair%%:*} needs=${pair#*:} on=ON
        for need in ${needs//,/ }; do [[ $have == *" $need "* ]] || on=OFF; done
        printf -- '-DGGML_%s=%s\n' "$option" "$on"
    done
}

# Sets llama_root.
llama_ensure() {
    local flags key source build
    mapfile -t flags < <(printf '%s\n' "${llama_flags[@]}" && llama_cpu_flags)
    key=$(printf '%s\n' "$(gcc -dumpfullversion)" "${flags[@]}" | sha256sum | cut -c 1-12)
    llama_root=$cache/llama-$llama_version-$key
    [[ -d $llama_root ]] && return

    if ! fetched "$llama_sdist" "$llama_sha256"; then
        say "fetching the llama.cpp source (77 MB)"
        pip_fetch llama --no-binary :all: --no-build-isolation
        fetched "$llama_sdist" "$llama_sha256" || die "$llama_sdist does not have the pinned hash"
    fi
    source=$cache/work/llama-$llama_version build=$cache/work/llama-$llama_version-$key
    if [[ ! -d $source ]]; then
        say "unpacking it"
        rm -rf "$source.part" && mkdir -p "$source.part"
        tar -xzf "$cache/downloads/$llama_sdist" -C "$source.part" --strip-components=3 \
            "${llama_sdist%.tar.gz}/vendor/llama.cpp"
        mv "$source.part" "$source"
    fi
    say "building llama.cpp (once; 3 to 5 minutes on 2 cores)"
    # Its build asks git for a version: it must not find this repository's.
    logged llama-configure env GIT_CEILING_DIRECTORIES="$cache/work" cmake -S "$source" -B "$build" -G Ninja "${flags[@]}" \
        -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_INSTALL_PREFIX="$llama_root"
    logged llama-build cmake --build "$build" -j "$jobs"
    rm -rf "$cache/work/install"
    logged llama-install env DESTDIR="$cache/work/install" cmake --install "$build"
    mkdir -p "$cache/work/install$llama_root/share/licenses"
    cp "$source/LICENSE" "$cache/work/install$llama_root/share/licenses/llama.cpp"
    mv "$cache/work/install$llama_root" "$llama_root"
    rm -rf "$source" "$build" "$cache/work/install"
    say "llama.cpp is built"
}
