#!/usr/bin/env bash
# Runs the tests except the slow ones, in two processes, in an environment that it sets up in this
# checkout.
#
#   bash tools/test.sh [arguments of pytest], e.g. `-m slow` or `tests/cli -k help`
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
set_up_environment "test"
say "running: pytest $*"
cd "$root"
TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}" exec "$environment/bin/python" -m pytest -q -n 2 --dist worksteal "$@"
