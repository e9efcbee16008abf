# shellcheck shell=bash
# Sourced by the scripts beside it: makes sure that .venv holds an environment for this checkout.
#
#   set_up_environment EXTRAS     e.g. "plots,metrics"; then "$environment/bin/python" is ready
#
# PYTHON names the Python to build it with; python3 otherwise.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
environment="$root/.venv"

say() { printf '== %s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Sets `python` to a Python that can build the environment, or ends with what is wrong.
find_python() {
    python="${PYTHON:-python3}"
    command -v "$python" >/dev/null 2>&1 ||
        fail "there is no $python; install Python 3.10 to 3.13 or name one: PYTHON=/path/to/python3"
    local version minor
    version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ||
        fail "$python does not run"
    minor="${version#*.}"
    if [[ "${version%%.*}" != 3 ]] || ((minor < 10 || minor > 13)); then
        fail "Python 3.10 to 3.13 is needed, $python is $version; name another: PYTHON=python3.12"
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python has no venv module; on Debian and Ubuntu: apt install python$version-venv"
}

# What the environment was built from: another line means that it has to be built again.
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
    # An environment whose Python has been removed or replaced has to be made anew.
    local built_with
    built_with="$("$environment/bin/python" -c \
        'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" || built_with=none
    if [[ "$built_with" == "${wanted%% *}" && -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
        say "environment: $environment is up to date"
        return
    fi
    if [[ "$built_with" != "${wanted%% *}" ]]; then
        say "environment: making $environment with $python (${wanted%% *})"
        "$python" -m venv --clear "$environment" || fail "$environment could not be made"
    else
        say "environment: $environment lacks [$extras], or setup.cfg has changed since"
    fi
    say "environment: installing keras-bert-impl[$extras]; the first time takes some minutes"
    "$environment/bin/python" -m pip install --quiet --upgrade pip ||
        fail "pip could not be upgraded; pip says above why"
    "$environment/bin/python" -m pip install --quiet --editable "${root}[$extras]" ||
        fail "the packages could not be installed; pip says above why"
    printf '%s\n' "$wanted" >"$stamp"
    say "environment: ready"
}
