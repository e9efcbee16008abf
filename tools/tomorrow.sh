#!/usr/bin/env bash
# Runs the tests except the slow ones on the nightlies of TensorFlow, TF-Text, Keras and KerasHub,
# in the environment build/tomorrow. It reads setup.cfg only to find the other packages to install.
#
#   bash tools/tomorrow.sh [arguments of pytest]
#   TENSORFLOW=tensorflow bash tools/tomorrow.sh    its newest release candidate instead
#
# If TF-Text's nightly was built for another version of TensorFlow, the tests run without TF-Text.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
environment="$root/build/tomorrow"
set_up_environment "test"
pip=("$environment/bin/python" -m pip)
# A nightly contains the same files as its release, so the release is removed first. If pip
# installed their dependencies, it would also install the releases again.
"${pip[@]}" uninstall --quiet --yes tensorflow tf-nightly {tensorflow-text,keras,keras-hub}{,-nightly}
"${pip[@]}" install --quiet --pre --no-deps "${TENSORFLOW:-tf-nightly}" {tensorflow-text,keras,keras-hub}-nightly ||
    fail "the nightlies could not be installed; see pip's message above"
"${pip[@]}" list | grep -E '^tensorflow |nightly' || true
say "running: pytest $*"
cd "$root"
TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}" exec "$environment/bin/python" -m pytest -q -n 2 --dist worksteal "$@"
