#!/usr/bin/env bash
# Runs the quickstart (corpus, vocabulary, pre-training, fine-tuning, export) on local text, in an
# environment that it sets up in this checkout.
#
#   bash tools/quickstart.sh [arguments of `keras-bert quickstart`]
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
set_up_environment "plots,metrics"
say "running: keras-bert quickstart $*"
exec "$environment/bin/keras-bert" quickstart "$@"
