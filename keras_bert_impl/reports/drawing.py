"""`Drawing`: lines, rectangles, circles and text, as SVG for pages and papers, or as PNG."""

import dataclasses
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file
from keras_bert_impl.reports.text import clean, escape

Point = tuple[float, float]

# Colors of a light page; `assets/page.css` has those of a dark one. Series: Okabe and Ito's
# palette, darkened where a line on white would have less contrast than 3:1.
COLORS = {
    "paper": "#ffffff",
    "ink": "#1b1f24",
    "muted": "#5b6470",
    "grid": "#d9dee4",
    "s0": "#0b5cad",
    "s1": "#b84a00",
    "s2": "#00735a",
    "s3": "#9a4577",
    "s4": "#8a6500",
    "s5": "#3f6f8f",
}
DASHES = {"s1": "7 3", "s2": "2 3", "s3": "9 3 2 3", "s4": "5 2 1 2", "s5": "12 4", "muted": "4 4"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


@dataclasses.dataclass(frozen=True)
class _Shape:
    kind: str  # line, rect, circle or text
    color: str  # a key of COLORS
    points: tuple[Point, ...]  # for rect: corner and size; for circle: center and radius
    text: str = ""  # of a text; else what the shape means, shown on hover
    anchor: str = "start"
    size: float = 12
    opacity: float = 1.0
    upright: bool = False  # text that is read from below


class Drawing:
    """A picture in pixels, from the top left."""

    def __init__(self, name: str, title: str, width: int = 340, height: int = 240) -> None:
        self.name, self.title = re.sub(r"[^\w-]+", "_", name), title
        self.width, self.height = width, height
        self._shapes: list[_Shape] = []

    def line(self, points: Sequence[Point], color: str = "ink", size: float = 1) -> None:
        """Adds a line of a width; series other than the first are dashed."""
        self._shapes.append(_Shape("line", color, tuple(points), size=size))

    def rectangle(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        color: str = "s0",
        opacity: float = 1.0,
        hint: str = "",
    ) -> None:
        """Adds a filled rectangle."""
        corners = (x, y), (width, height)
        self._shapes.append(_Shape("rect", color, corners, hint, opacity=opacity))

    def circle(self, x: float, y: float, radius: float, color: str = "s0", hint: str = "") -> None:
        """Adds a filled circle."""
        self._shapes.append(_Shape("circle", color, ((x, y), (radius, 0)), hint, opacity=0.75))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        color: str = "ink",
        size: float = 12,
        upright: bool = False,
    ) -> None:
        """Adds a line of text at its baseline; `anchor` is start, middle or end."""
        shape = _Shape("text", color, ((x, y),), text, anchor, size, upright=upright)
        self._shapes.append(shape)

    # === Formats ===

    def svg(self, is_file: bool = False) -> str:
        """Returns SVG: an element for a page, whose style colors it, or a whole file."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        size += f' height="{self.height}" role="img" aria-label="{escape(self.title)}"'
        shapes = "".join(map(_svg_of, self._shapes))
        if not is_file:
            return f'<svg class="drawing" {size}>{shapes}</svg>'
        style = "".join(
            f".f-{name}{{fill:{color}}}.l-{name}{{stroke:{color};fill:none}}"
            for name, color in COLORS.items()
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>{escape(self.title)}</title>'
            f'<style>text{{font-family:{_FONT}}}{style}</style><rect class="f-paper" width="100%" '
            f'height="100%"/>{shapes}</svg>\n'
        )

    def save_svg(self, path: str | Path) -> None:
        """Writes an SVG file."""
        with replace_file(path) as temporary:
            temporary.write_text(self.svg(is_file=True), encoding="utf-8")

    def save_png(self, path: str | Path, dots_per_pixel: float = 2.5) -> None:
        """Draws a PNG file with matplotlib."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise InputError(
                "PNG pictures need matplotlib: pip install 'keras-bert-impl[plots]'"
            ) from error
        figure = Figure(figsize=(self.width / 100, self.height / 100))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for shape in self._shapes:
            _draw(axes, shape)
        with replace_file(path) as temporary, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # the font lacks a character
            figure.savefig(temporary, format="png", dpi=100 * dots_per_pixel)


def _svg_of(shape):
    (x, y), (width, height) = shape.points[0], shape.points[-1]
    if shape.kind == "line":
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        dashes = f' stroke-dasharray="{DASHES[shape.color]}"' if shape.color in DASHES else ""
        return f'<polyline class="l-{shape.color}" stroke-width="{shape.size}"{dashes} points="{points}"/>'
    if shape.kind == "text":
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if shape.upright else ""
        return (
            f'<text class="f-{shape.color}" x="{x:.1f}" y="{y:.1f}" font-size="{shape.size}" '
            f'text-anchor="{shape.anchor}"{turn}>{escape(shape.text)}</text>'
        )
    hint = f"<title>{escape(shape.text)}</title>" if shape.text else ""
    style = f'class="f-{shape.color}" fill-opacity="{shape.opacity:.3g}"'
    if shape.kind == "rect":
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        return f"<rect {style} {place}>{hint}</rect>"
    return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{width:.1f}">{hint}</circle>'


def _draw(axes, shape):
    from matplotlib.patches import Circle, Rectangle

    color = COLORS[shape.color]
    (x, y), (width, height) = shape.points[0], shape.points[-1]
    points = 0.72  # of a pixel, at 100 pixels an inch
    if shape.kind == "line":
        dashes = tuple(float(part) / shape.size for part in DASHES.get(shape.color, "").split())
        style = (0, dashes) if dashes else "-"
        columns = zip(*shape.points, strict=True)
        axes.plot(*columns, color=color, linewidth=shape.size * points, linestyle=style)
    elif shape.kind == "text":
        place = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
        # No formulas: a dollar sign is a dollar sign.
        axes.text(x, y, clean(shape.text), color=color, fontsize=shape.size * points, ha=place,
                  va="baseline", rotation=90 * shape.upright, rotation_mode="anchor",
                  parse_math=False)  # fmt: skip
    elif shape.kind == "rect":
        axes.add_patch(Rectangle((x, y), width, height, color=color, alpha=shape.opacity, lw=0))
    else:
        axes.add_patch(Circle((x, y), width, color=color, alpha=shape.opacity, lw=0))
