#!/usr/bin/env python
"""Takes pictures of pages in headless Chromium: wide and narrow, light and dark.

The pictures are for visual inspection; each of the four combinations has contact sheets. Nothing is
compared.

    python tools/docs/screenshots.py build/screenshots build/site/*.html

It needs Chromium (`chromium` on the path) and Pillow, a dependency of matplotlib.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw

_SIZES = {"wide": (1280, 1600), "narrow": (390, 1600)}
_SCHEMES = {"light": 1, "dark": 0}  # values of the setting preferredColorScheme
_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --disable-quic "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--virtual-time-budget=4000"
).split()
_COLUMNS, _SCALE = 4, 0.42


def main() -> None:
    """Writes `WIDTH-SCHEME/PAGE.png`, and a contact sheet `WIDTH-SCHEME-N.png` per 8 pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("pages", nargs="+", type=Path, help="HTML files")
    arguments = parser.parse_args()
    for width in _SIZES:
        for scheme in _SCHEMES:
            folder = arguments.out / f"{width}-{scheme}"
            folder.mkdir(parents=True, exist_ok=True)
            pictures = [take(page, folder, width, scheme) for page in arguments.pages]
            for number in range(0, len(pictures), 8):
                sheet = contact_sheet(pictures[number : number + 8])
                sheet.save(arguments.out / f"{width}-{scheme}-{number // 8}.png")


def take(page: Path, folder: Path, width: str, scheme: str) -> Path:
    """Takes a picture of the top of a page; returns its path."""
    path = folder / f"{page.parent.name}-{page.stem}.png"
    shoot(page, path, _SIZES[width], scheme)
    return path


def shoot(page: Path, path: Path, size: tuple[int, int], scheme: str) -> None:
    """Takes a picture with a given size in pixels."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                "chromium",
                *_OPTIONS,
                f"--user-data-dir={profile}",
                f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
                f"--window-size={','.join(map(str, size))}",
                f"--screenshot={path.absolute()}",
                page.absolute().as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


def contact_sheet(paths: list[Path]) -> Image.Image:
    """Returns the pictures side by side, with their names."""
    pictures = []
    for path in paths:
        picture = Image.open(path).convert("RGB")
        picture = picture.resize([round(_SCALE * side) for side in picture.size])
        ImageDraw.Draw(picture).text((4, 4), path.stem, fill="red")
        pictures.append(picture)
    width, height = pictures[0].size
    rows = -(-len(pictures) // _COLUMNS)
    sheet = Image.new("RGB", (width * _COLUMNS, height * rows), "white")
    for number, picture in enumerate(pictures):
        sheet.paste(picture, (width * (number % _COLUMNS), height * (number // _COLUMNS)))
    return sheet


if __name__ == "__main__":
    main()
