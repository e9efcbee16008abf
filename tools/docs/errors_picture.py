#!/usr/bin/env python
"""Creates the picture in the README from the report of a run: two errors with highlighted words.

    python tools/docs/errors_picture.py run/report.html    # writes docs/pictures/errors-*.png

The run in the picture has four intents of Banking77 (CC BY 4.0) and 352 training examples.
"""

import sys
import tempfile
from pathlib import Path

import screenshots

_SIZE = (600, 288)
# Shows only the first two errors and their words, without the source.
_STYLE = """<style>
header, nav, footer, section:not([aria-labelledby=worst-errors]), h2, .note, details,
.example:nth-of-type(n+3), dl > :nth-child(-n+2), dl > :nth-child(n+7):nth-child(-n+8) {
    display: none !important;
}
body, main { margin: 0; padding: 4px 8px; }
.example { margin: 8px 0; }
</style></head>"""


def main(report: str) -> None:
    pictures = Path(__file__).resolve().parents[2] / "docs" / "pictures"
    text = Path(report).read_text(encoding="utf-8").replace("</head>", _STYLE, 1)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "errors.html")
        page.write_text(text, encoding="utf-8")
        for scheme in ("light", "dark"):
            screenshots.shoot(page, pictures / f"errors-{scheme}.png", _SIZE, scheme)


if __name__ == "__main__":
    main(sys.argv[1])
