# Formatting, clang-tidy, layering, sanitizers, fuzzing, golden files, GPU check. Sourced by ./dev.

our_sources() {
    local folder folders=()
    for folder in src include apps tests fuzz bench python; do [[ -d $folder ]] && folders+=("$folder"); done
    find "${folders[@]}" \( -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort
}

cmd_format() {
    packages_ensure
    our_sources | xargs -r clang-format -i
    say "formatted $(our_sources | wc -l) files"
}

check_format() {
    say "checking the formatting of $(our_sources | wc -l) files"
    our_sources | xargs -r clang-format --dry-run --Werror || die "run ./dev format"
}

check_tidy() {
    say "running clang-tidy"
    configure clang
    cmake --build build-clang --target lynx_build_info >/dev/null  # writes a header
    with_lock clang-tidy "$root/.venv/bin/python" scripts/dev/tidy.py --build build-clang --cache "$cache/tidy" --jobs "$jobs" "$@"
}

check_layering() {
    say "checking layers and words"
    "$root/.venv/bin/python" tests/layering/check_includes.py "$root"
    "$root/.venv/bin/python" tests/layering/check_words.py "$root"
}

cmd_tidy() {
    setup
    check_tidy "$@"
}

lint() {
    check_format
    check_layering
    check_tidy
}

cmd_lint() {
    setup
    lint
    say "lint passed"
}

# ThreadSanitizer of gcc 12 cannot place its shadow under a large address-space randomisation, so that is switched off where allowed.
fixed_addresses() {
    if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
        setarch "$(uname -m)" --addr-no-randomize "$@"
    else
        "$@"
    fi
}

check_sanitizers() {
    local preset
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    for preset in asan tsan; do
        build "$preset"
        say "running the tests labelled check under $preset"
        fixed_addresses ctest --test-dir "build-$preset" --output-on-failure --no-tests=error -j "$jobs" -L '^check$' -LE '^long$'
    done
}

cmd_ci() {
    local long=0 minutes=10
    if [[ ${1:-} == --long ]]; then
        long=1 minutes=${2:-10}
        [[ $minutes =~ ^[0-9]+$ ]] || die "usage: ./dev ci [--long [MINUTES]]"
    elif (($# > 0)); then
        die "usage: ./dev ci [--long [MINUTES]]"
    fi
    test_setup
    browser_ensure
    lint
    say "running the tests"
    run_ctest build -LE '^long$'
    build clang
    say "running the tests labelled check, built by clang"
    run_ctest build-clang -L '^check$' -LE '^long$'
    check_sanitizers
    check_kernels
    if ((long)); then
        check_tidy --add-checks 'clang-analyzer-*'
        say "running the long tests"
        run_ctest build -L '^long$'
        fuzz $((minutes * 60))
    else
        fuzz 10
    fi
    say "ci passed"
}

# fuzz SECONDS: each target starts from its corpus in the repository; what it finds grows in the cache, and so does an input that crashes.
fuzz() {
    local seconds=$1 targets target name
    configure fuzz
    mapfile -t targets < <(ninja -C build-fuzz -t targets all | sed -n 's#^\(bin/[a-z0-9_]*_fuzz\): .*#\1#p')
    ((${#targets[@]} > 0)) || die "there are no fuzz targets"
    build fuzz "${targets[@]}"
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    for target in "${targets[@]}"; do
        name=${target#bin/}
        mkdir -p "$cache/fuzz/corpus/$name" "$cache/fuzz/crash/$name"
        say "fuzzing $name for $seconds s"
        logged "fuzz-$name" "build-fuzz/$target" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix="$cache/fuzz/crash/$name/" "$cache/fuzz/corpus/$name" "fuzz/corpus/$name"
        say "  $(awk -F ': *' '/number_of_executed_units/ { print $NF }' "$cache/log/fuzz-$name.log") inputs"
    done
    say "fuzzed ${#targets[@]} targets without a failure"
}

cmd_fuzz() {
    local seconds=${1:-60}
    [[ $seconds =~ ^[0-9]+$ ]] || die "usage: ./dev fuzz [SECONDS]"
    setup
    fuzz "$seconds"
}

# Golden files are released data: the bytes of a format never change by accident. A generator is tests/golden*/make_*.py LYNXKV, and
# leaves files alone that exist; whatever it does, existing .lynx files are put back. --force removes them first.
cmd_golden() {
    local force=0 kept=$cache/work/golden generator file changed=0
    case ${1:-} in
        --force) force=1 ;;
        '') ;;
        *) die "usage: ./dev golden [--force]" ;;
    esac
    compgen -G 'tests/golden*/make_*.py' >/dev/null || die "there is no generator tests/golden*/make_*.py"
    setup
    build release
    rm -rf "$kept"
    if ((force)); then
        say "removing the golden .lynx files"
        find tests/golden* -name '*.lynx' -delete
    else
        find tests/golden* -name '*.lynx' -print0 | while IFS= read -r -d '' file; do
            mkdir -p "$kept/$(dirname "$file")" && cp -p "$file" "$kept/$file"
        done
    fi
    for generator in tests/golden*/make_*.py; do
        say "running $generator"
        "$root/.venv/bin/python" "$generator" "$root/build/lynxkv"
    done
    if [[ -d $kept ]]; then
        while IFS= read -r file; do
            cmp -s "$kept/$file" "$file" && continue
            say "changed, put back: $file"
            cp -p "$kept/$file" "$file"
            changed=1
        done < <(cd "$kept" && find . -type f | sed 's#^\./##' | LC_ALL=C sort)
    fi
    git --no-pager diff --stat -- tests
    git status --short -- tests
    ((!changed)) || die "golden files never change once released; --force makes them anew"
    say "golden files are up to date"
}

# The CUDA compiler, where there is one: on the path or where NVIDIA's packages put it.
find_nvcc() {
    local nvcc
    for nvcc in "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
        [[ -x $nvcc ]] && printf '%s' "$nvcc" && return
    done
    return 1
}

# build_codecs FOLDER [CMAKE OPTIONS]: the codecs alone, by default with their kernels: a C++ compiler, CMake and nvcc are enough.
build_codecs() {
    cmake --preset cuda -B "$@" >&2
    cmake --build "$1" -j "$jobs" >&2
}

# Kernels compile, for every architecture; nothing is run.
check_kernels() {
    local nvcc
    if ! nvcc=$(find_nvcc); then
        say "SKIPPED: the CUDA kernels are not compiled, for there is no nvcc"
        return
    fi
    say "compiling the CUDA kernels"
    build_codecs build-cuda -DCMAKE_CUDA_COMPILER="$nvcc"
}

# device-check [--emulate] [--values N]: conformance and throughput on this machine's GPU, written to $OUT or bench/results. Exit
# status 77 where there is none. Compilers differ there, so warnings are no errors. --emulate runs the same algorithms on this processor, in build-emulated.
cmd_device_check() {
    local out=${OUT:-bench/results} nvcc
    mkdir -p "$out"
    if [[ " $* " == *' --emulate '* ]]; then
        say "building the codecs"
        build_codecs build-emulated -DLYNX_CUDA=OFF -DLYNX_WERROR=OFF
        exec build-emulated/bin/lynx_device_check --out "$out" "$@"
    fi
    if ! nvidia-smi -L >/dev/null 2>&1 && [[ ! -e /dev/nvidia0 ]]; then
        say "no GPU here: nothing is checked"
        exit 77
    fi
    if ! nvcc=$(find_nvcc); then
        say "no nvcc here: nothing is checked"
        exit 77
    fi
    say "building the codecs and their kernels"
    build_codecs build-cuda -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=native -DLYNX_WERROR=OFF
    exec build-cuda/bin/lynx_device_check --out "$out" "$@"
}
