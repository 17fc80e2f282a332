# Debian packages and the Python environment. Sourced by ./dev.

debian_packages=(
    build-essential g++ clang clang-format clang-tidy libclang-rt-14-dev cmake ninja-build ccache pkg-config git
    python3 python3-venv libgtest-dev libgmock-dev libdeflate-dev libeigen3-dev libhwy-dev libzip-dev libxxhash-dev libcli11-dev nlohmann-json3-dev
    libcpp-httplib-dev libssl-dev openssl curl
    bible-kjv bible-kjv-text iproute2
)

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

can_be_root() { [[ $(id -u) == 0 ]] || command -v sudo >/dev/null; }

packages_ensure() {
    [[ ${LYNX_SKIP_APT:-} == 1 ]] && return
    command -v apt-get >/dev/null ||
        die "this system has no apt-get; install the equivalents of: ${debian_packages[*]}; then set LYNX_SKIP_APT=1"
    local missing=() package present
    present=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${debian_packages[@]}" 2>/dev/null | awk '$1 == "ii" { print $2 }' || true)
    for package in "${debian_packages[@]}"; do
        grep -qx -- "$package" <<<"$present" || missing+=("$package")
    done
    ((${#missing[@]} == 0)) && return
    say "installing Debian packages: ${missing[*]}"
    can_be_root || die "root is needed to install them; as root, run: apt-get install ${missing[*]}"
    local apt=(apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
    logged apt-update as_root "${apt[@]}" update
    logged apt-install as_root env DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# Chromium, for the test of the server's live page: 290 MB installed, so only ./dev ci fetches it; without it the test is skipped.
browser_ensure() {
    command -v chromium >/dev/null || [[ ${LYNX_SKIP_APT:-} == 1 ]] && return
    say "installing Chromium"
    (logged apt-install-chromium as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 \
        install -y --no-install-recommends chromium) || say "no Chromium: the live page's test is skipped"
}

# .venv with the pinned packages of requirements-python.txt; made anew when they or the folder change.
venv_ensure() {
    local stamp=$root/.venv/lynx-stamp want
    want="$root $(sha256sum <scripts/dev/requirements-python.txt)"
    [[ -f $stamp && $(<"$stamp") == "$want" ]] && return
    say "making the Python environment .venv"
    local python=python3
    [[ -x /usr/bin/python3 ]] && python=/usr/bin/python3
    logged venv "$python" -m venv --clear .venv
    logged pip "$root/.venv/bin/python" -m pip install --no-cache-dir --disable-pip-version-check --progress-bar off \
        --require-hashes --only-binary :all: -r scripts/dev/requirements-python.txt
    printf '%s\n' "$want" >"$stamp"
}
