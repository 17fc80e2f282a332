# Set-up, build, test. Sourced by ./dev.

# ccache keeps objects across builds and build folders.
export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache} CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-3G}

# Packages, Python environment, llama.cpp, the default model and the prompt texts: once.
setup() {
    lock_cache
    packages_ensure
    venv_ensure
    llama_ensure
    model_default_ensure
    texts_ensure
    unlock_cache
}

build_dir() { if [[ $1 == release ]]; then printf build; else printf 'build-%s' "$1"; fi; }

# configure PRESET: runs CMake only when its command line or the presets changed; Ninja runs it again for the rest.
configure() {
    local preset=$1 dir
    dir=$(build_dir "$preset")
    local command=(cmake --preset "$preset" -DLYNX_LLAMA_ROOT="$llama_root" -DLYNX_MODELS_DIR="$models"
        -DPython3_EXECUTABLE="$root/.venv/bin/python")
    local want
    want="${command[*]} $(sha256sum <CMakePresets.json)"
    [[ -f $dir/build.ninja && -f $dir/lynx-stamp && $(<"$dir/lynx-stamp") == "$want" ]] && return
    say "configuring $dir"
    with_lock "$preset" "${command[@]}" >&2
    printf '%s\n' "$want" >"$dir/lynx-stamp"
}

# build PRESET [TARGETS]
build() {
    local preset=$1 dir
    shift
    dir=$(build_dir "$preset")
    configure "$preset"
    say "building $dir"
    with_lock "$preset" cmake --build "$dir" -j "$jobs" ${1:+--target "$@"} >&2
}

cmd_build() {
    local preset=${1:-release}
    (($# <= 1)) || die "usage: ./dev build [PRESET]"
    setup
    build "$preset"
    say "$(build_dir "$preset") is up to date"
}

# run_ctest DIR ARGS...
run_ctest() {
    local dir=$1
    shift
    ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$jobs" "$@"
}

test_setup() {
    setup
    build release
    lock_cache
    model_requantized_ensure
    model_gemma_ensure
    unlock_cache
}

# ctest's closing lines are the last output, so nothing may follow them here.
cmd_test() {
    test_setup
    say "running the tests"
    exec ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs" -LE '^long$' "$@"
}
