#!/usr/bin/env bash
# Runs the quickstart (corpus, vocabulary, pre-training, fine-tuning, export) on local text, in an
# environment that it sets up in this checkout.
#
#   bash tools/quickstart.sh [arguments of `python -m examples.quickstart`]
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
needed=4000 # MB: an environment has 2,600, and pip unpacks beside it
free="$(df -Pk "$root" | awk 'NR == 2 {print int($4 / 1024)}')"
if [[ ! -d "$environment" ]] && ((free < needed)); then
    fail "$root has $free MB of free space; a new environment needs $needed"
fi
set_up_environment "plots,metrics"
say "running: python -m examples.quickstart $*"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$environment/bin/python" -m examples.quickstart "$@"
