"""Shared figure code: matplotlib without a display, and atomic file writes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any  # matplotlib is optional

# Distinguishable in print and with red-green color blindness (Okabe and Ito's palette).
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]


def new_figure(
    rows: int, columns: int, width: float, height: float, **layout: Any
) -> tuple[Figure, np.ndarray]:
    """Creates a figure of a size in inches and its axes, an array [rows, columns]."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install 'keras-bert-impl[plots]'") from error
    # Not pyplot, which would keep every figure alive and open a window on a desktop.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **layout)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Writes a figure as PNG at 120 dots per inch."""
    with replace_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
