"""Checks that no page of a built site loads a script, style, font or image from another host.

Usage: python tools/docs/check_site.py build/site
"""

import re
import sys
from pathlib import Path

_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"'> ]+"
    r"|<link\b(?![^>]*\brel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//[^\"'> ]+"
)
_IMPORTED = re.compile(r"(?:url\([\"']?|@import\s+[\"'])(?:https?:)?//[^\"')]+")


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Returns a line for each page or style sheet that loads a file from another host."""
    lines = []
    for pattern, ending in ((_LOADED, "*.html"), (_IMPORTED, "*.css")):
        for path in sorted(site.rglob(ending)):
            matches = pattern.findall(path.read_text(encoding="utf-8"))
            lines += [f"{path.relative_to(site)}: {match}" for match in matches]
    return lines


if __name__ == "__main__":
    lines = loaded_from_elsewhere(Path(sys.argv[1]))
    if lines:
        sys.exit("the site loads files from other hosts:\n" + "\n".join(lines))
