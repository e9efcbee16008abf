#!/usr/bin/env python
"""Draws SVG diagrams for light and dark pages; as a script, `docs/pictures/concept-*.svg`."""

from html import escape
from pathlib import Path

# Scheme -> colors of text, faint text, lines, boxes and the frame.
PALETTES = {
    "light": ("#1b2733", "#4c5a68", "#6b7a89", "#e8eefb", "#f7f9fc"),
    "dark": ("#e6ebf2", "#b3bfcc", "#8b99a8", "#27354f", "#1d2430"),
}
Palette = tuple[str, str, str, str, str]


def _draw_svg(width, height, parts):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _draw_text(x, y, text, color, size, anchor="middle", weight="normal"):
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{color}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _draw_box(x, y, width, height, fill, line):
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" '
        f'stroke="{line}"/>'
    )


def _draw_arrow(x, y, to_x, to_y, color):
    dx, dy = (to_x > x) * 6, (to_y > y) * 6  # right or down
    tip = f"{to_x},{to_y} {to_x - dx - dy * 0.7},{to_y - dy - dx * 0.7}"
    tip += f" {to_x - dx + dy * 0.7},{to_y - dy + dx * 0.7}"
    return (
        f'<line x1="{x:g}" y1="{y:g}" x2="{to_x - dx:g}" y2="{to_y - dy:g}" stroke="{color}" '
        f'stroke-width="1.6"/><polygon points="{tip}" fill="{color}"/>'
    )


def layers(rows: list[dict[str, str]], palette: Palette) -> str:
    """Draws groups of names in rows, with an arrow between rows.

    Args:
        rows: list from top to bottom; each row maps groups to names separated by spaces.
        palette: one of `PALETTES`.
    """
    ink, faint, line, fill, _ = palette
    width, gap, parts, y = 520, 20, [], 4
    for row in rows:
        of_box = (width - gap * (len(row) - 1) - 8) / len(row)
        wrapped = {group: _wrap(names.split(), of_box / 8.2) for group, names in row.items()}
        height = 34 + 18 * max(map(len, wrapped.values()))
        if y > 4:
            parts.append(_draw_arrow(width / 2, y - 22, width / 2, y - 2, line))
        for number, (group, lines) in enumerate(wrapped.items()):
            x = 4 + number * (of_box + gap)
            parts.append(_draw_box(x, y, of_box, height, fill, line))
            middle = x + of_box / 2
            parts.append(_draw_text(middle, y + 21, group, ink, 16, weight="bold"))
            parts += [
                _draw_text(middle, y + 40 + 18 * i, text, faint, 13) for i, text in enumerate(lines)
            ]
        y += height + 24
    return _draw_svg(width, y - 20, parts)


def _wrap(names, length):
    lines = [""]
    for name in names:
        name = name.removeprefix("tasks.")
        if lines[-1] and len(lines[-1]) + len(name) + 2 > length:
            lines[-1] += ","
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else ''}{name}"
    return lines


def concept(palette: Palette) -> str:
    """Draws the data flow from a text through a model."""
    ink, faint, line, fill, frame = palette
    parts = [
        _draw_box(118, 6, 316, 118, frame, line),
        _draw_text(276, 28, "one SavedModel", faint, 14),
        _draw_text(50, 74, "“I was charged", ink, 13),
        _draw_text(50, 92, "twice”", ink, 13),
        _draw_text(488, 74, "billing", ink, 14, weight="bold"),
        _draw_text(488, 92, "0.98", faint, 14),
        _draw_arrow(102, 78, 128, 78, line),
        _draw_arrow(424, 78, 458, 78, line),
    ]
    steps = [("Tokenizer", "subwords"), ("Encoder", "vectors"), ("Head", "scores")]
    for number, (name, result) in enumerate(steps):
        x = 130 + number * 102
        parts += [
            _draw_box(x, 46, 88, 64, fill, line),
            _draw_text(x + 44, 74, name, ink, 15, weight="bold"),
        ]
        parts.append(_draw_text(x + 44, 95, result, faint, 13))
        if number:
            parts.append(_draw_arrow(x - 13, 78, x, 78, line))
    return _draw_svg(520, 130, parts)


if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[2] / "docs" / "pictures"
    for scheme, palette in PALETTES.items():
        (folder / f"concept-{scheme}.svg").write_text(concept(palette), encoding="utf-8")
