# Messages, logged commands, the cache folder and its lock. Sourced by ./dev.

cache=${LYNX_CACHE:-$root/.cache}
mkdir -p "$cache/log" "$cache/downloads" "$cache/models"
cache=$(cd "$cache" && pwd -P)
jobs=${LYNX_JOBS:-$(nproc)}

say() { printf '[dev +%ds] %s\n' "$SECONDS" "$*" >&2; }

die() {
    printf '[dev] error: %s\n' "$*" >&2
    exit 1
}

beat=
stop_beat() {
    if [[ -n $beat ]]; then
        kill "$beat" 2>/dev/null || true
        wait "$beat" 2>/dev/null || true
        beat=
    fi
}
trap stop_beat EXIT

# logged NAME COMMAND...: output goes to the log of that name; its last line is shown now and then, and its end if the command fails.
logged() {
    local log=$cache/log/$1.log rc=0
    shift
    (
        exec 9>&-
        # `read` waits without a child process that would outlive us.
        while ! read -rt 15 <> <(:); do say "  ... $(tail -n 1 "$log" | cut -c 1-120)"; done
    ) &
    beat=$!
    "$@" >"$log" 2>&1 </dev/null || rc=$?
    stop_beat
    if ((rc != 0)); then
        tail -n 40 "$log" >&2
        die "failed with status $rc: $* (whole log: $log)"
    fi
}

# Two runs at once on one cache take turns while they set up.
lock_cache() {
    exec 9>"$cache/lock"
    if ! flock -n 9; then
        say "waiting for another ./dev that is setting up"
        flock 9
    fi
}
unlock_cache() { exec 9>&-; }

# with_lock NAME COMMAND...: so that two builds never share a build folder.
with_lock() {
    local name=$1
    shift
    flock --close "$cache/lock-$name" "$@"
}

# fetched FILE SHA256: true if the download is there and whole.
fetched() { [[ -f $cache/downloads/$1 ]] && printf '%s  %s\n' "$2" "$cache/downloads/$1" | sha256sum --check --status; }

# pip_fetch REQUIREMENTS PIP-OPTIONS...: downloads pinned, hash-checked packages into the downloads folder.
pip_fetch() {
    local requirements=$1 into=$cache/downloads/partial
    shift
    rm -rf "$into"
    logged "fetch-$requirements" "$root/.venv/bin/python" -m pip download --no-cache-dir --no-deps --disable-pip-version-check \
        --progress-bar off --require-hashes "$@" -d "$into" -r "scripts/dev/requirements-$requirements.txt"
    mv -f "$into"/* "$cache/downloads/"
    rm -rf "$into"
}
