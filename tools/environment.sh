# shellcheck shell=bash
# Sourced by the other scripts here: creates or updates the environment of this checkout, .venv.
#
#   set_up_environment EXTRAS     e.g. "plots,metrics"; then "$environment/bin/python" is ready
#
# PYTHON is the Python with which it is created; default: python3.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
environment="$root/.venv"

say() { printf '== %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Sets `python` to a Python that can create the environment, or fails with a message.
find_python() {
    python="${PYTHON:-python3}"
    command -v "$python" >/dev/null 2>&1 ||
        fail "there is no $python; install Python 3.11 to 3.14, or set PYTHON=/path/to/python3"
    local version minor
    version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ||
        fail "$python does not run"
    minor="${version#*.}"
    if [[ "${version%%.*}" != 3 ]] || ((minor < 11 || minor > 14)); then
        fail "Python 3.11 to 3.14 is needed, but $python is $version; set PYTHON=python3.12 or another"
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python has no venv module; on Debian and Ubuntu: apt install python$version-venv"
}

# Prints everything on which the environment depends; if this has changed, the environment must be
# updated.
fingerprint() {
    "$python" - "$1 $root" "$root/setup.cfg" "$root/pyproject.toml" <<'PYTHON'
import hashlib, sys

digest = hashlib.sha256(sys.argv[1].encode())
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        digest.update(file.read())
print("%d.%d" % sys.version_info[:2], digest.hexdigest())
PYTHON
}

set_up_environment() {
    local extras="$1"
    find_python
    local stamp="$environment/built-for-$extras" wanted
    wanted="$(fingerprint "$extras")"
    # An environment whose Python was removed or replaced must be created again.
    local built_with
    built_with="$("$environment/bin/python" -c \
        'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" || built_with=none
    if [[ "$built_with" == "${wanted%% *}" && -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
        say "environment: $environment is up to date"
        return
    fi
    if [[ "$built_with" != "${wanted%% *}" ]]; then
        say "environment: creating $environment with $python (${wanted%% *})"
        "$python" -m venv --clear "$environment" || fail "$environment could not be created"
    else
        say "environment: $environment lacks [$extras], or setup.cfg has changed"
    fi
    say "environment: installing keras-bert-impl[$extras]; the first time takes several minutes"
    "$environment/bin/python" -m pip install --quiet --upgrade pip ||
        fail "pip could not be upgraded; see its message above"
    "$environment/bin/python" -m pip install --quiet --editable "${root}[$extras]" ||
        fail "the packages could not be installed; see pip's message above"
    printf '%s\n' "$wanted" >"$stamp"
    say "environment: ready"
}
