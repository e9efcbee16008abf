"""Charts for reports: curves, points, bars and confusion matrices."""

import dataclasses
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.reports.page import clean, escape, number
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.version import install_command

Point = tuple[float, float]

# Colors of a light page; `assets/page.css` contains the dark colors. The colors of series are from
# the palette of Okabe and Ito. Some are darkened for a contrast of at least 3:1 on white.
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
    color: str  # key of `COLORS`
    points: tuple[Point, ...]  # corner and size of a rect, or center and radius of a circle
    text: str = ""  # content of a text, or tooltip of another shape
    anchor: str = "start"
    size: float = 12
    opacity: float = 1.0
    upright: bool = False  # whether text runs upwards


class Drawing:
    """A chart of lines, rectangles, circles and text.

    Coordinates are in pixels from the top left corner.
    """

    def __init__(self, name: str, title: str, width: int = 340, height: int = 240) -> None:
        self.name, self.title = re.sub(r"[^\w-]+", "_", name), title
        self.width, self.height = width, height
        self._shapes: list[_Shape] = []

    def line(self, points: Sequence[Point], color: str = "ink", size: float = 1) -> None:
        """Adds a line. Each color has a dash pattern; see `DASHES`."""
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
        corners = (x, y), (width, height)
        self._shapes.append(_Shape("rect", color, corners, hint, opacity=opacity))

    def circle(self, x: float, y: float, radius: float, color: str = "s0", hint: str = "") -> None:
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
        """Adds a line of text. (`x`, `y`) is the start, middle or end of the baseline."""
        shape = _Shape("text", color, ((x, y),), text, anchor, size, upright=upright)
        self._shapes.append(shape)

    # === Formats ===

    def svg(self, is_file: bool = False) -> str:
        """Returns an SVG element, which needs the CSS of a report page, or a complete SVG file."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        size += f' height="{self.height}" role="img" aria-label="{escape(self.title)}"'
        shapes = "".join(map(_format_svg, self._shapes))
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
        with replace_file(path) as temporary:
            temporary.write_text(self.svg(is_file=True), encoding="utf-8")

    def save_png(self, path: str | Path, dots_per_pixel: float = 2.5) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise InputError(f"PNG files require matplotlib: {install_command('plots')}") from error
        figure = Figure(figsize=(self.width / 100, self.height / 100))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for shape in self._shapes:
            _draw(axes, shape)
        with replace_file(path) as temporary, warnings.catch_warnings():
            # ignores warnings about characters that the font lacks
            warnings.filterwarnings("ignore", "Glyph")
            figure.savefig(temporary, format="png", dpi=100 * dots_per_pixel)


def _format_svg(shape):
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
    points = 0.72  # points per pixel, at 100 pixels per inch
    if shape.kind == "line":
        dashes = tuple(float(part) / shape.size for part in DASHES.get(shape.color, "").split())
        style = (0, dashes) if dashes else "-"
        columns = zip(*shape.points, strict=True)
        axes.plot(*columns, color=color, linewidth=shape.size * points, linestyle=style)
    elif shape.kind == "text":
        place = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
        # dollar signs must not start a formula
        axes.text(x, y, clean(shape.text), color=color, fontsize=shape.size * points, ha=place,
                  va="baseline", rotation=90 * shape.upright, rotation_mode="anchor",
                  parse_math=False)  # fmt: skip
    elif shape.kind == "rect":
        axes.add_patch(Rectangle((x, y), width, height, color=color, alpha=shape.opacity, lw=0))
    else:
        axes.add_patch(Circle((x, y), width, color=color, alpha=shape.opacity, lw=0))


# === Charts ===

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 42, 44
_MOST_POINTS = 400  # maximum number of points in a line, more than a chart has pixels
SERIES = ("s0", "s1", "s2", "s3", "s4", "s5")


class Series(NamedTuple):
    """A series of points.

    Attributes:
        label: name in the legend; "" for none.
        xs, ys: coordinates; points that are not finite are not drawn.
        color: key of `COLORS`.
        hints: tooltip of each point, for `points`.
        bounds: interval of each point, for `curves`.
    """

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    color: str = "s0"
    hints: Sequence[str] = ()
    bounds: Sequence[Point] = ()


class Axis(NamedTuple):
    """An axis with a label and a range.

    If `limits` is None, the axis covers the range of the data. A logarithmic axis has a tick at
    each value of the data.
    """

    label: str
    limits: tuple[float, float] | None = None
    is_logarithmic: bool = False


def curves(name: str, title: str, series: Sequence[Series], x: Axis, y: Axis) -> Drawing:
    """Draws lines. A single point is drawn as a circle."""
    drawing, place = _draw_frame(name, title, series, x, y)
    for index, curve in enumerate(series):
        aside = 2 * (index - (len(series) - 1) / 2)  # pixels that separate intervals
        points = [place(*point) for point in _select_finite_points(curve)]
        if len(points) > _MOST_POINTS:
            points = points[:: -(-len(points) // _MOST_POINTS)] + points[-1:]
        if len(points) > 1:
            drawing.line(points, curve.color, 2)
        for point in points if len(points) <= 12 else ():
            drawing.circle(*point, 2.5, curve.color)
        for at_x, bounds in zip(curve.xs, curve.bounds):
            ends = [place(at_x, bound) for bound in bounds]
            drawing.line([(x + aside, y) for x, y in ends], curve.color)
    return drawing


def points(name: str, title: str, series: Sequence[Series], x: Axis, y: Axis) -> Drawing:
    drawing, place = _draw_frame(name, title, series, x, y)
    for group in series:
        hints = list(group.hints) or [""] * len(group.xs)
        for point, hint in zip(zip(group.xs, group.ys), hints):
            if all(map(math.isfinite, point)):
                drawing.circle(*place(*point), 3.2, group.color, hint)
    return drawing


def reliability(name: str, title: str, bins: Sequence[Any], label: str) -> Drawing:
    """Draws a reliability diagram: the accuracy in each bin of confidence."""
    diagonal = Series("calibrated", (0, 1), (0, 1), "muted")
    axes = Axis("confidence", (0, 1)), Axis("accuracy", (0, 1))
    drawing, place = _draw_frame(name, title, [Series(label, (), ()), diagonal], *axes)
    for bar in bins:
        left_x, top_y = place(bar.low, bar.accuracy)
        right_x, bottom_y = place(bar.high, 0)
        hint = (
            f"{bar.size:,} examples, confidence {bar.confidence:.3f}, accuracy {bar.accuracy:.3f}"
        )
        size = right_x - left_x - 2, max(bottom_y - top_y, 1)
        drawing.rectangle(left_x + 1, bottom_y - size[1], *size, "s0", 0.6, hint)
        drawing.write(
            left_x + 1 + size[0] / 2,
            bottom_y - size[1] - 4,
            _format_count(bar.size),
            "middle",
            size=10,
        )
    drawing.line([place(0, 0), place(1, 1)], "muted", 1.5)
    return drawing


def _format_count(number):
    return f"{number}" if number < 1000 else f"{number / 1000:.1f}".removesuffix(".0") + "k"


def bars(
    name: str, title: str, labels: Sequence[str], values: Sequence[float], unit: str
) -> Drawing:
    drawing = Drawing(name, title, 340, 40 + 24 * len(labels))
    drawing.write(8, 18, title, size=13)
    most = max(values, default=0) or 1
    for row, (label, value) in enumerate(zip(labels, values)):
        y = 30 + 24 * row
        drawing.write(120, y + 14, _truncate(label, 17), "end")
        drawing.rectangle(126, y + 2, max(150 * value / most, 1), 16, "s0", 0.7)
        drawing.write(130 + 150 * value / most, y + 14, f"{number(value)}{unit}", color="muted")
    return drawing


def matrix(name: str, title: str, labels: Sequence[str], counts: np.ndarray) -> Drawing:
    """Draws a confusion matrix, `[true, predicted]`. Shades show the fraction of the row."""
    side, left_x, top_y = 44, 110, 120
    size = len(labels) * side
    drawing = Drawing(name, title, left_x + size + 16, top_y + size + 16)
    drawing.write(8, 18, title, size=13)
    drawing.write(left_x + size / 2, 36, "predicted", "middle", "muted")
    drawing.write(14, top_y + size / 2, "true", "middle", "muted", upright=True)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for row, label in enumerate(labels):
        drawing.write(left_x - 6, top_y + side * (row + 0.6), _truncate(label, 13), "end")
        drawing.write(left_x + side * (row + 0.6), top_y - 6, _truncate(label, 11), upright=True)
        for column in range(len(labels)):
            x, y = left_x + side * column, top_y + side * row
            color = "s0" if row == column else "s1"
            drawing.rectangle(x + 1, y + 1, side - 2, side - 2, "grid", 0.4)
            drawing.rectangle(x + 1, y + 1, side - 2, side - 2, color, 0.55 * shares[row, column])
            drawing.write(x + side / 2, y + side * 0.6, f"{counts[row, column]:,}", "middle")
    return drawing


# === Axes ===


def _draw_frame(name, title, series, x, y):
    """Draws axes, grid and legend.

    Returns the drawing and a function that converts a data point to pixels.
    """
    labels = [group for group in series if group.label]
    drawing = Drawing(name, title, 340 + 70 * max(len(labels) - 3, 0))
    points = [point for group in series for point in _select_finite_points(group)]
    xs = [point[0] for point in points]
    ys = [
        *(point[1] for point in points),
        *(y for group in series for ends in group.bounds for y in ends),
    ]
    scale_x = _fit_logarithmic_scale(xs) if x.is_logarithmic else _fit_linear_scale(xs, x.limits)
    low_x, high_x, x_ticks = scale_x
    low_y, high_y, y_ticks = _fit_linear_scale(ys, y.limits)
    warp = math.log if x.is_logarithmic else float
    width, height = drawing.width - _LEFT - _RIGHT, drawing.height - _TOP - _BOTTOM

    def place(at_x, at_y):
        right = (warp(at_x) - warp(low_x)) / (warp(high_x) - warp(low_x))
        up = (at_y - low_y) / (high_y - low_y)
        return _LEFT + width * right, _TOP + height * (1 - up)

    for tick in y_ticks:
        across = [place(low_x, tick), place(high_x, tick)]
        drawing.line(across, "grid")
        drawing.write(_LEFT - 6, across[0][1] + 4, _format_tick(tick), "end", "muted", 11)
    for tick in x_ticks:
        at = place(tick, low_y)
        drawing.line([at, (at[0], at[1] + 4)], "muted")
        drawing.write(at[0], at[1] + 16, _format_tick(tick), "middle", "muted", 11)
    drawing.line([place(low_x, high_y), place(low_x, low_y), place(high_x, low_y)], "ink")
    drawing.write(_LEFT + width / 2, drawing.height - 8, x.label, "middle", "muted", 11)
    drawing.write(12, _TOP + height / 2, y.label, "middle", "muted", 11, upright=True)
    drawing.write(8, 15, _truncate(title, 48), size=13)
    _draw_legend(drawing, labels)
    return drawing, place


def _draw_legend(drawing, series):
    x = _LEFT
    room = (drawing.width - _LEFT) / max(len(series), 1) - 26
    for entry in series:
        label = _truncate(entry.label, max(int(room / 6), 3))
        drawing.line([(x, 28), (x + 16, 28)], entry.color, 2.5)
        drawing.write(x + 20, 32, label, color="muted", size=11)
        x += 34 + 6.2 * len(label)


def _select_finite_points(series):
    return [(x, y) for x, y in zip(series.xs, series.ys) if math.isfinite(x) and math.isfinite(y)]


def _fit_linear_scale(values, limits):
    low, high = limits or (min(values, default=0.0), max(values, default=1.0))
    if low == high:
        low, high = low - (abs(low) or 1) * 0.5, high + (abs(high) or 1) * 0.5
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    if limits is None:
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    first = math.ceil(low / step - 1e-9)
    ticks = [step * n for n in range(first, math.floor(high / step + 1e-9) + 1)]
    return low, high, ticks


def _fit_logarithmic_scale(values):
    ticks = sorted(set(values))
    low, high = ticks[0], ticks[-1]
    return (low, high, ticks) if low < high else (low / 2, high * 2, ticks)


def _format_tick(value):
    if abs(value) >= 10_000:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k"
    return f"{round(value, 10):g}"


def _truncate(text, most):
    text = str(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
