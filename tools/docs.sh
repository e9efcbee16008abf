#!/usr/bin/env bash
# Builds the documentation site into build/site; fails on a broken link or anchor, a page that is
# not in the navigation, and a page that loads something from another host.
#
#   bash tools/docs.sh
#
# DOCS_PYTHON is a Python that has the packages of the extra `docs`; default: the environment that
# this script sets up in this checkout.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
if [[ -z "${DOCS_PYTHON:-}" ]]; then
    set_up_environment "docs"
    DOCS_PYTHON="$environment/bin/python"
fi
cd "$root"
# Not --quiet: MkDocs does not count warnings that it does not print.
PYTHONPATH="$root" NO_MKDOCS_2_WARNING=1 "$DOCS_PYTHON" -m mkdocs build --strict --clean
"$DOCS_PYTHON" tools/docs/check_site.py build/site
say "site: build/site/index.html"
