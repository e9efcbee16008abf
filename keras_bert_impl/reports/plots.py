"""Draws figures with matplotlib (the extra `plots`)."""

import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.paths import expanded
from keras_bert_impl.utils.io.reading import parse_json_line
from keras_bert_impl.utils.version import install_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any  # matplotlib is optional.

__all__ = ["attention_map", "learning_curves"]

# Okabe and Ito's palette, which is suitable for print and for color-blind readers.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
_MOST_CURVES = 3
_MOST_MAPS = 4
_MOST_NAMED_TOKENS = 64  # maximum number of token labels
_HELD_OUT_PREFIX = "val_"  # the prefix in Keras
_NOT_CURVES = {"step", "epoch", "time", "seconds", "seconds_left"}
_ACRONYMS = {"lm", "mlm", "nsp"}
_UNITS = {
    "loss": "loss (nats)",
    "accuracy": "accuracy (fraction correct)",
    "perplexity": "perplexity",
    "learning_rate": "learning rate",
}


def learning_curves(
    metrics: Any,
    path: str | Path | None = None,
    title: str = "Learning curves",
    names: Sequence[str] | None = None,
    baselines: dict[str, tuple[str, float]] | None = None,
) -> Figure:
    """Plots each metric over steps or epochs, for training and held-out examples.

    Args:
        metrics: the return value of `fit` or the dict `history`; a run directory or the path of a
            `metrics.jsonl`; or a list of dicts, each with `step` and the values of metrics. Names
            of held-out metrics start with `val_`.
        path: PNG file in which the figure is saved. None saves no file.
        title: Title of the figure.
        names: Metrics to plot, without `val_`; None for all metrics.
        baselines: dict from a metric to (label, value) of a baseline, drawn as a dashed line.

    Returns:
        The figure, with one axes per metric.

    Raises:
        InputError: matplotlib is not installed, a line of the file is invalid, or no line has a
            step and a number.

    Example:
        learning_curves(model.fit(texts, labels, epochs=3))
        learning_curves("run", "curves.png", "Pre-training",
                        baselines={"masked_lm_accuracy": ("most frequent word", 0.05)})
    """
    reports, unit = _convert_to_reports(metrics)
    curves = _collect_curves(reports)
    names = list(dict.fromkeys(name for name, _ in curves)) if names is None else names
    names = [name for name in names if (name, False) in curves or (name, True) in curves]
    if not names:
        where = metrics if isinstance(metrics, (str, os.PathLike)) else "metrics"
        raise InputError(f"{where}: nothing to draw, because no line has a step and a number.")
    rows = -(-len(names) // _MOST_CURVES)
    columns = -(-len(names) // rows)
    figure, grid = _create_figure(rows, columns, 1.0 + 4.4 * columns, 0.6 + 3.3 * rows)
    for axes, name in zip(grid.flat, names, strict=False):
        _draw(axes, name, curves, (baselines or {}).get(name), unit)
    for axes in grid.flat[len(names) :]:
        axes.remove()
    figure.suptitle(title, fontsize=13, fontweight="bold")
    if path is not None:
        _save_figure(figure, path)
    return figure


def _convert_to_reports(metrics):
    """Converts `metrics` to a list of dicts; returns the list and the label of the x-axis."""
    if isinstance(metrics, (str, os.PathLike)):
        metrics = expanded(metrics)
        is_run = os.path.isdir(metrics)
        return _read(Path(metrics) / "metrics.jsonl" if is_run else metrics), "optimizer steps"
    epochs = getattr(metrics, "epoch", None)
    history = getattr(metrics, "history", metrics)
    if not isinstance(history, dict):
        if not isinstance(history, (list, tuple)) or not all(isinstance(r, dict) for r in history):
            raise InputError(
                "metrics must be the result of `fit`, a run directory, the path of a "
                f"metrics.jsonl, or a list of dicts. Received: {metrics!r:.60}"
            )
        return history, "optimizer steps"
    reports = {}
    for name, values in history.items():
        if not isinstance(values, (list, tuple)):
            raise InputError(f"metrics: {name!r} must be a list with one number per epoch.")
        # With `validation_freq=n`, held-out metrics exist only for every n-th epoch.
        length = max(map(len, history.values()))
        every = max(1, length // max(1, len(values)))
        for number, value in enumerate(values, 1):
            step = number * every
            epoch = epochs[step - 1] + 1 if epochs and step <= len(epochs) else step
            reports.setdefault(epoch, {"step": epoch})[name] = value
    return [reports[epoch] for epoch in sorted(reports)], "epochs"


def _draw(axes, name, curves, baseline, unit):
    for held_out, label in ((False, "training"), (True, "held out")):
        points = curves.get((name, held_out))
        if points:
            axes.plot(
                *zip(*points, strict=True),
                color=COLORS[held_out],
                label=label,
                linewidth=2 if held_out else 1.3,
                # Only short curves have markers.
                marker="o" if len(points) <= 25 else None,
                markersize=4,
            )
    if baseline:
        label, value = baseline
        axes.axhline(value, color="0.35", linestyle="--", linewidth=1.2, label=label)
    words = [word.upper() if word in _ACRONYMS else word for word in name.split("_")]
    readable = " ".join(words)
    axes.set_title(readable[:1].upper() + readable[1:])
    axes.set_xlabel(unit)
    units = (label for ending, label in _UNITS.items() if name.endswith(ending))
    axes.set_ylabel(next(units, name.replace("_", " ")))
    axes.xaxis.get_major_locator().set_params(nbins=6, integer=True)
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
    axes.grid(True, color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def _collect_curves(reports):
    """Returns the points (step, value) of each curve by (metric, whether held out)."""
    curves = {}
    for report in reports:
        step = report.get("step")
        for key, value in report.items():
            is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if step is not None and is_number and key not in _NOT_CURVES:
                name = key.removeprefix(_HELD_OUT_PREFIX)
                curves.setdefault((name, name != key), []).append((step, value))
    return curves


def _read(path):
    reports = []
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    report = parse_json_line(line, f"{path}:{number}")
                    if not isinstance(report, dict):
                        raise InputError(
                            f'{path}:{number}: a report must be an object, such as {{"step": 10}}.'
                        )
                    reports.append(report)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    return reports


def attention_map(
    tokens: Sequence[str],
    scores: Any,
    path: str | Path | None = None,
    title: str = "Attention",
    names: Sequence[str] | None = None,
) -> Figure:
    """Draws the attention weights of one or several heads.

    Args:
        tokens: Tokens of one text, including [CLS] and [SEP].
        scores: array [length, length] or [heads, length, length], such as the encoder's
            `attention_scores` for one example. Rows are queries, columns are keys, and each row
            sums to 1. Only the first `len(tokens)` rows and columns are drawn.
        path: PNG file in which the figure is saved. None saves no file.
        title: Title of the figure, such as `"Layer 3"`.
        names: Title of each head; None for `head 0`, `head 1`, ...

    Returns:
        The figure, with one axes per head and the axes of the color bar.

    Raises:
        InputError: matplotlib is not installed, or the shapes do not match.

    Example:
        attention_map(["[CLS]", "a", "cat", "[SEP]"], np.full([4, 4], 0.25))
    """
    scores = np.asarray(scores, dtype="float32")
    heads = scores[None] if scores.ndim == 2 else scores  # [heads, length, length]
    if heads.ndim != 3 or heads.shape[1] != heads.shape[2] or heads.shape[1] < len(tokens):
        raise InputError(
            "scores must be [length, length] or [heads, length, length] for at least the given "
            f"tokens. Received: scores of shape {list(scores.shape)} for {len(tokens)} tokens"
        )
    if not tokens or not len(heads):
        raise InputError("nothing to draw: no tokens or no heads.")
    if names is not None and len(names) != len(heads):
        raise InputError(
            f"names must have one name per head. Received: {len(names)} names for {len(heads)} "
            "heads"
        )
    if names is None:
        names = [f"head {head}" for head in range(len(heads))] if scores.ndim == 3 else [""]
    heads = heads[:, : len(tokens), : len(tokens)]
    rows = -(-len(heads) // _MOST_MAPS)
    columns = -(-len(heads) // rows)
    side = 1.2 + 0.19 * min(len(tokens), _MOST_NAMED_TOKENS)  # inches; each name needs a line
    side = max(side, 3.4 if len(heads) == 1 else 2.6)
    figure, grid = _create_figure(
        rows, columns, 1.6 + side * columns, 0.9 + side * rows, sharex=True, sharey=True
    )
    for axes, head, name in zip(grid.flat, heads, names, strict=False):
        # Most weights are small and a few are large. A square-root scale shows both.
        image = axes.imshow(np.sqrt(head), cmap="viridis", vmin=0, vmax=1, aspect="equal")
        axes.set_title(name, fontsize=10)
    for axes in grid.flat[len(heads) :]:
        axes.remove()
    _name_tokens(grid, tokens, len(heads))
    bar = figure.colorbar(image, ax=list(grid.flat)[: len(heads)], shrink=0.8)
    weights = [0, 0.05, 0.2, 0.5, 1]
    bar.set_ticks([weight**0.5 for weight in weights], labels=[f"{weight:g}" for weight in weights])
    bar.set_label("attention weight (square-root scale)")
    figure.supxlabel("attended token (key)", fontsize=10)
    figure.supylabel("attending token (query)", fontsize=10)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    if path is not None:
        _save_figure(figure, path)
    return figure


def _name_tokens(grid, tokens, count):
    every = -(-len(tokens) // _MOST_NAMED_TOKENS)
    places = list(range(0, len(tokens), every))
    labels = [tokens[place] for place in places]
    columns = grid.shape[1]
    for position in range(count):
        axes = grid.flat[position]
        axes.set_xticks(places, labels, rotation=90, fontsize=8)
        axes.set_yticks(places, labels, fontsize=8)
        axes.tick_params(
            length=0,
            labelleft=position % columns == 0,
            labelbottom=position + columns >= count,
        )


# === Files ===


def _create_figure(
    rows: int, columns: int, width: float, height: float, **layout: Any
) -> tuple[Figure, np.ndarray]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(f"figures need matplotlib. Run {install_command('plots')}") from error
    # pyplot would keep every figure in memory and open a window.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **layout)


def _save_figure(figure: Figure, path: str | Path) -> None:
    with replace_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
