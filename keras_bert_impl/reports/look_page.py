"""`look`: an interactive HTML page with attention and attributions for one text."""

import base64
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.batches.words import Words
from keras_bert_impl.layers.losses import cross_entropy
from keras_bert_impl.models.encoder import encoders_run_by
from keras_bert_impl.reports import page
from keras_bert_impl.reports.attribution import attribute
from keras_bert_impl.reports.attribution.methods import METHODS
from keras_bert_impl.reports.attribution.rows import features_of_first
from keras_bert_impl.reports.page import Html, Section, escape, user_text
from keras_bert_impl.tasks.base.feature_rows import FEATURES
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path

MOST_TOKENS = 64
_LONGEST_ROW = 512  # maximum number of tokens; the attention weights grow quadratically
_ROWS = 16  # rows per batch
_CONTROLS = """
<p class="note">Choose a word. The shade of every other word shows the attention weight between the
two words. Arrow keys move from word to word.</p>
<div class="controls">
<label>Show <select id="view"><option value="weights">attention of a head</option>
<option value="mean">mean of a layer's heads</option>
<option value="rollout">rollout up to a layer</option></select></label>
<label>Layer <select id="layer"></select></label>
<label>Head <select id="head"></select></label>
<label>Words that it <select id="side"><option value="row">attends to</option>
<option value="column">is attended by</option></select></label>
</div>
<div class="tokens" id="tokens" role="group" aria-label="Words of the text" dir="auto"></div>
<p id="said" role="status"></p>
<div class="scroll" tabindex="0" role="region" aria-label="Map of all words">
<canvas id="map" role="img" aria-label="Attention of all words: rows attend to columns"></canvas></div>
<h3>All heads</h3><p class="note">Rows: layers. Columns: attention heads. Choose a
head to show its weights above. The shades show the square root of the weights.</p>
<div class="scroll" tabindex="0" role="region" aria-label="All heads"><div id="heads"></div></div>
<noscript><p>The attention is drawn by JavaScript, which is disabled in this browser.</p></noscript>
"""
_STYLE = """<style>
.controls{display:flex;flex-wrap:wrap;gap:.5rem 1rem;margin:.6rem 0}
.tokens{line-height:2.1}
.tokens button{border:1px solid transparent;background:rgba(var(--for),var(--a,0));padding:.05rem .25rem;margin:0 .1rem;font-size:1rem}
.tokens button[aria-pressed=true]{border-color:var(--s1);font-weight:700}
#map{display:block;image-rendering:pixelated}
#heads{display:grid;gap:4px;padding:4px;width:max-content}
#heads button{padding:2px;line-height:0}
#heads button[aria-pressed=true]{outline:3px solid var(--s1)}
#said{min-height:1.6em}
</style>"""


class TextAttention(NamedTuple):
    """Attention weights within one text.

    Attributes:
        tokens: first tokens of the model's input, including special tokens. If an embedder encodes
            several texts, the tokens of the texts are concatenated.
        features: dict of int32 `[rows, length]`: the encoder's inputs in `predict`, padded only to
            the longest row.
        weights: float32 `[layers, heads, tokens, tokens]`. Rows attend to columns. Each row sums to
            1 unless `is_cut` is true.
        rollout: float32 `[layers, tokens, tokens]`, computed from the weights of all tokens. See
            the function `rollout`.
        is_cut: whether the text has more tokens than `tokens`.
    """

    tokens: list[str]
    features: dict[str, np.ndarray]
    weights: np.ndarray
    rollout: np.ndarray
    is_cut: bool


def look(model: Any, text: Any, path: str | Path) -> Path:
    """Visualizes attention and attributions for a text, in a self-contained HTML file.

    The page shows the attention of each layer and head, its rollout, and the words that support
    the prediction (see `attribute`). For a `MaskedLM`, the page also shows the loss of
    each token when only this token is masked. The text is tokenized as in `predict` or `encode`.
    Attention and losses are shown for the first 64 tokens.

    Args:
        model: a task model.
        text: a text, a (first, second) pair, or (prompt, endings) for choices. If the
            model is an embedder, each text of a pair is encoded separately.
        path: file to write.

    Returns:
        The path.

    Raises:
        InputError: the text is empty, or the model does not support this type of text.

    Example:
        look(classifier, "a good film", "look.html")
    """
    if not "".join(_collect_texts(text)).strip():
        raise InputError("the text is empty.")
    attention = text_attention(model, text)
    sections = []
    if model.has_attribution:
        sections.append(_render_saliency(model, text))
    sections.append(Section("Attention", _cut(attention) + _CONTROLS + _STYLE))
    if model.has_masked_losses:
        sections.append(_render_losses(model, attention))
    lead = f"{escape(type(model).__name__)} · {user_text(' | '.join(_collect_texts(text)), 300)}"
    script = page.script_of("look.js")
    html = page.page(
        "Attention and attributions", lead, sections, script=script, data=_prepare_data(attention)
    )
    page.save_page(path, html)
    return local_path(path)


def _collect_texts(text):
    """Returns the strings of a text, pair, or (prompt, endings) as a list."""
    return (
        [text]
        if isinstance(text, str)
        else [part for element in text for part in _collect_texts(element)]
    )


def _cut(attention):
    if not attention.is_cut:
        return ""
    text = f"Only the first {len(attention.tokens)} tokens are shown, including special tokens."
    return page.paragraph(text)


def _prepare_data(attention: TextAttention) -> dict[str, Any]:
    layers, heads, length, _ = attention.weights.shape
    return {
        "tokens": attention.tokens,
        "sizes": [layers, heads, length],
        "weights": _encode_weights(attention.weights),
        "rollout": _encode_weights(attention.rollout),
    }


def _encode_weights(weights):
    """Converts weights in [0, 1] to base64. Each byte is 255 times the square root of a weight."""
    rounded = np.round(np.sqrt(np.clip(weights, 0, 1)) * 255).astype("uint8")
    return base64.b64encode(rounded.tobytes()).decode()


def _render_saliency(model, text):
    html, names = "", dict(zip(METHODS, ("Integrated gradients", "Occlusion")))
    for method, name in names.items():
        try:
            attribution = attribute(model, text, method=method)
        except InputError as error:
            return Section("Attribution", page.paragraph(f"{error}"))
        rows = [[word.text[:80], round(word.score, 4)] for word in attribution.words]
        table = page.details("as a table", page.table(["word", "score"], rows))
        html += f"<h3>{name}</h3>{page.shaded_words(attribution.words)}{table}"
    cut = " The text is truncated, because it exceeds max_length." * attribution.is_cut
    first = page.paragraph(
        f"Target: {attribution.target}. Log-odds or value {attribution.output:.3f} (baseline with "
        f"all words masked: {attribution.baseline:.3f}). Blue (solid) words support the target, "
        f"orange (dashed) words oppose it.{cut}"
    )
    return Section("Attribution", first + html)


# === Losses ===


def token_losses(model: Any, features: dict[str, np.ndarray], count: int) -> np.ndarray:
    """Returns the loss of each token when only this token is masked: float32 `[count]`, in nats.

    Special tokens have NaN.
    """
    features = {name: features[name] for name in FEATURES}
    ids, tokenizer = features["token_ids"][0], model.tokenizer
    special = [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id]
    losses = np.full(count, np.nan, "float32")
    places = np.flatnonzero(~np.isin(ids[:count], special))
    for start in range(0, len(places), _ROWS):
        positions = places[start : start + _ROWS]
        rows = {name: np.repeat(value, len(positions), axis=0) for name, value in features.items()}
        rows["token_ids"][np.arange(len(positions)), positions] = tokenizer.mask_id
        rows["masked_positions"] = positions[:, None].astype("int32")
        logits = model(rows, training=False)[:, 0]
        losses[positions] = np.asarray(cross_entropy(ids[positions], logits))
    return losses


def _render_losses(model, attention):
    losses = token_losses(model, attention.features, len(attention.tokens))
    finite_losses = losses[np.isfinite(losses)]
    if not len(finite_losses):
        return Section("Losses", page.paragraph("There are no tokens to predict."))
    largest = max(float(finite_losses.max()), 1e-9)
    words = "".join(
        f'<span class="w against" style="--a:{loss / largest:.2f}" title="{loss:.2f} nats">'
        f"{escape(token)}</span> "
        for token, loss in zip(attention.tokens, np.nan_to_num(losses))
    )
    rows = [[t, float(loss)] for t, loss in zip(attention.tokens, losses) if np.isfinite(loss)]
    first = page.paragraph(
        f"The loss of each token if only this token is masked: {finite_losses.mean():.3f} nats on "
        f"average, perplexity {np.exp(finite_losses.mean()):.1f}. Darker tokens are harder to "
        "predict."
    )
    table = page.details("as a table", page.table(["token", "loss (nats)"], rows))
    return Section("Losses", first + Html(f'<div class="words" dir="auto">{words}</div>') + table)


# === Attention ===


def text_attention(model: Any, text: Any, most: int = MOST_TOKENS) -> TextAttention:
    """Computes the encoder's attention for a text or example, tokenized as in `predict`."""
    example = model.as_example(text)
    features = _record_encoder_features(model, example)
    lengths = features["padding_mask"].sum(axis=1)
    features = {name: value[:, : lengths.max()] for name, value in features.items()}
    detailed = model.encoder.with_outputs("attention_scores")
    tokens: list[str] = []
    weights, rollouts, is_cut = [], [], False
    for row, segments in enumerate(model.segments_of_rows(example)):
        length = min(int(lengths[row]), _LONGEST_ROW)
        count = min(length, most - len(tokens))
        is_cut = is_cut or count < _count_all_tokens(model.tokenizer, segments)
        if not count:
            break
        row_features = {name: value[row : row + 1, :length] for name, value in features.items()}
        scores = detailed(row_features, training=False)["attention_scores"]
        row_weights = np.stack([np.asarray(layer)[0] for layer in scores]).astype("float32")
        weights.append(row_weights[:, :, :count, :count])
        rollouts.append(rollout(row_weights)[:, :count, :count])
        ids = row_features["token_ids"][0, :count]
        tokens += [model.tokenizer.id_to_token(int(number)) for number in ids]
    return TextAttention(tokens, features, _join_blocks(weights), _join_blocks(rollouts), is_cut)


def _record_encoder_features(model, example):
    """Returns the encoder's input features, a dict of int32 `[rows, length]`."""
    rows, network = model.encoder_call(example)
    features = features_of_first(model, rows)
    inputs = []

    def recorded(compute, features):
        inputs.append(features)
        return compute(features)

    with encoders_run_by(recorded):
        network(features)
    return {name: np.asarray(value) for name, value in inputs[0].items() if value is not None}


def _count_all_tokens(tokenizer, segments):
    texts = [text.text if isinstance(text, Words) else text for text in segments]
    special = 2 + (len(texts) > 1) * tokenizer.num_separators
    return special + int(tokenizer.tokenize(texts).row_lengths().numpy().sum())


def _join_blocks(blocks):
    """Joins matrices `[..., n, n]` of different sizes into a block-diagonal matrix."""
    ends = np.cumsum([block.shape[-1] for block in blocks])
    joined = np.zeros((*blocks[0].shape[:-2], ends[-1], ends[-1]), "float32")
    for block, end in zip(blocks, ends):
        start = end - block.shape[-1]
        joined[..., start:end, start:end] = block
    return joined


def rollout(weights: np.ndarray) -> np.ndarray:
    """Computes the attention rollout up to each layer, float32 `[layers, length, length]`.

    Each row of the rollout sums to 1.

    Args:
        weights: attention weights, float `[layers, heads, length, length]`. Each row sums to 1.

    Source: Abnar and Zuidema 2020 (arXiv:2005.00928), section 3.
    """
    same = np.eye(weights.shape[-1])
    rollouts = [same]
    for layer in weights.astype("float64").mean(axis=1):
        rollouts.append((layer + same) / 2 @ rollouts[-1])
    return np.stack(rollouts[1:]).astype("float32")
