#!/usr/bin/env bash
# Checks style, format and types, in an environment that it sets up in this checkout.
#
#   bash tools/lint.sh
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
set_up_environment "test"
cd "$root"
"$environment/bin/python" -m ruff check keras_bert_impl tests tools
"$environment/bin/python" -m ruff format --check keras_bert_impl tests tools
"$environment/bin/python" tools/check_names.py
"$environment/bin/python" -m mypy
