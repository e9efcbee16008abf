"""Attention maps: which token attends to which."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.plots.figures import Figure, new_figure, save_figure

_MOST_COLUMNS = 4
_MOST_NAMED_TOKENS = 64  # more would be illegible


def attention_map(
    tokens: Sequence[str],
    scores: Any,
    path: str | Path | None = None,
    title: str = "Attention",
    names: Sequence[str] | None = None,
) -> Figure:
    """Draws the attention of one head, or of several as a grid.

    Args:
        tokens: Tokens of one text, [CLS] and [SEP] included.
        scores: array [length, length] or [heads, length, length], such as the encoder's
            `attention_scores` for one example. Rows are queries, columns are keys; each row sums to
            1. Padding beyond `len(tokens)` is cut off.
        path: PNG file to write; None writes no file.
        title: Title of the figure, such as `"Layer 3"`.
        names: Title of each head; None for `head 0`, `head 1`, ...

    Returns:
        The figure, with one axes per head, then that of the color bar.

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
        raise InputError("there is no attention to draw: no tokens, or no heads.")
    if names is not None and len(names) != len(heads):
        raise InputError(
            f"names must have one name per head. Received: {len(names)} for {len(heads)} heads"
        )
    if names is None:
        names = [f"head {head}" for head in range(len(heads))] if scores.ndim == 3 else [""]
    heads = heads[:, : len(tokens), : len(tokens)]
    rows = -(-len(heads) // _MOST_COLUMNS)
    columns = -(-len(heads) // rows)
    side = 1.2 + 0.19 * min(len(tokens), _MOST_NAMED_TOKENS)  # inches: one line per name
    side = max(side, 3.4 if len(heads) == 1 else 2.6)
    figure, grid = new_figure(
        rows, columns, 1.6 + side * columns, 0.9 + side * rows, sharex=True, sharey=True
    )
    for axes, head, name in zip(grid.flat, heads, names, strict=False):
        # Many weights are tiny and a few are large: a square-root scale shows both.
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
        save_figure(figure, path)
    return figure


def _name_tokens(grid, tokens, count):
    """Labels the rows of the leftmost maps and the columns of the lowest maps."""
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
