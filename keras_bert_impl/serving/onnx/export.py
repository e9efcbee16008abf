"""A directory with a model as an ONNX file, proved before it appears."""

import dataclasses
import json

import numpy as np
import onnx

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_directory
from keras_bert_impl.interop import huggingface_config
from keras_bert_impl.serving.onnx.networks import encoder_of, kind_of, write_graph
from keras_bert_impl.serving.onnx.session import (
    Session,
    answered_by,
    keras_outputs,
    relative_difference,
)

# How far outputs may be from those of the model, relative to their root mean square. Numbers have
# 24 bits in float32 and 11 in float16, of which the sums of a deep network lose some; what 8 bits
# cost a task is told by its scores, and here only that the file is no wreck.
_TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2, "int8": 0.5}
PRECISIONS = tuple(_TOLERANCES)
_LARGE = 2**31 - 2**24  # bytes; a file of protocol buffers holds 2 GiB, graph and names included
_CALIBRATION_BATCH = 8
_SAMPLES = [
    "It is a truth universally acknowledged.",
    "Ada wrote the first program in 1843, for a machine that was never built!",
    "Zürich, 東京, naïve café: words that few vocabularies have.",
    "yes",
]


@dataclasses.dataclass(frozen=True)
class Report:
    """What an export found out.

    Attributes:
        difference: float. How far its outputs are from the model's, relative to those.
        before, after: float. The score of the model and of the ONNX file, in points; None where
            none was measured.
        bytes: int. The size of the ONNX file or files.
    """

    difference: float
    before: float | None
    after: float | None
    bytes: int


def export_onnx(
    model,
    directory,
    precision="fp32",
    fused=True,
    texts=None,
    calibration=None,
    measure=None,
    max_drop=None,
):
    """Writes `model.onnx` and, beside it, the tokenizer and `config.json` as in a model directory.

    Inputs and outputs are those of `write_graph`. The file is checked by `onnx.checker` and run in
    ONNX Runtime beside the model. It appears, whole, if it has passed.

    Args:
        model: as of `write_graph`.
        directory: str or `Path`. Written aside and renamed.
        precision: `"fp32"`; `"fp16"`; or `"int8"`: weights of dense layers and embeddings in 8
            bits, and products of them too.
        fused: bool. Whether with operators of ONNX Runtime, as of `write_graph`.
        texts: list of str to compare the outputs on. Default: four, of several languages.
        calibration: list of str, for `"int8"`: the scales of activations are taken from these
            texts, and operators are those of the standard. Default: from what is computed.
        measure: function of a task model to its score in points, the more the better.
        max_drop: float. How many points less than the model the ONNX file may score.

    Returns:
        `Report`.

    Raises:
        InputError: a model that has no ONNX form, arguments that do not go together, outputs too
            far from the model's, or a score that drops by more than `max_drop`.

    Example:
        export_onnx(TextClassifier.from_pretrained("path/to/model"), "served")
    """
    _check(precision, calibration, measure, max_drop)
    config = encoder_of(model).config
    with replace_directory(directory) as temporary:
        path = temporary / "model.onnx"
        _write(model, path, precision, fused, calibration)
        onnx.checker.check_model(str(path), full_check=True)
        session = Session(path, config)
        difference = _compare(session, model, texts, _TOLERANCES[precision])
        before = after = None
        if measure is not None:
            before, after = _measure(session, model, measure, max_drop)
        size = sum(file.stat().st_size for file in temporary.iterdir())
        _write_more(model, temporary)
    return Report(difference, before, after, size)


def _check(precision, calibration, measure, max_drop):
    if precision not in PRECISIONS:
        raise InputError(
            f"precision must be one of {', '.join(PRECISIONS)}. Received: {precision!r}"
        )
    if calibration is not None and (precision != "int8" or not calibration):
        raise InputError("calibration takes precision int8, and at least one text.")
    if max_drop is not None and measure is None:
        raise InputError("max_drop takes labelled examples to score the model on.")


def _write(model, path, precision, fused, calibration):
    dtype = "float16" if precision == "fp16" else "float32"
    proto = write_graph(model, dtype, fused and calibration is None)
    large = sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > _LARGE
    if precision != "int8":
        onnx.save_model(proto, path, save_as_external_data=large, location="model.onnx_data")
        return
    from keras_bert_impl.serving.onnx.quantization import quantize

    batches = None
    if calibration is not None:
        starts = range(0, len(calibration), _CALIBRATION_BATCH)
        parts = [calibration[start : start + _CALIBRATION_BATCH] for start in starts]
        batches = [_features(model, part) for part in parts]
    quantize(proto, path, large, batches, encoder_of(model).config)


def _features(model, texts):
    """Features of texts as the network of a model takes them; of an encoder alone, random ids."""
    if not hasattr(model, "tokenizer"):
        draw, shape = np.random.default_rng(0), (len(texts), min(16, model.config.max_length))
        ids = draw.integers(0, model.config.vocabulary_size, shape).astype("int32")
        return {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
    length = getattr(model, "max_length", encoder_of(model).config.max_length)
    features = {n: np.asarray(f)[:, :length] for n, f in model.tokenizer(texts).items()}
    is_grouped = len(model.input["token_ids"].shape) == 3
    if is_grouped and kind_of(model) != "TextEmbedder":
        features = {name: feature[None] for name, feature in features.items()}
    return features


def _compare(session, model, texts, tolerance):
    features = _features(model, texts or _SAMPLES)
    received, expected = session(features), keras_outputs(model, features)
    difference = relative_difference(received, expected, features["padding_mask"])
    if difference > tolerance:
        raise InputError(
            f"the outputs of the ONNX file differ from the model's by {difference:.2g} of their "
            f"size, more than {tolerance:.2g}; nothing was written."
        )
    return difference


def _measure(session, model, measure, max_drop):
    before = measure(model)
    with answered_by(session, model):
        after = measure(model)
    if max_drop is not None and not before - after <= max_drop:
        raise InputError(
            f"the score drops from {before:.2f} to {after:.2f}, by more than {max_drop:g} points; "
            "nothing was written."
        )
    return before, after


def _write_more(model, directory):
    if hasattr(model, "file_config"):
        content = model.file_config()
    else:
        head = "masked_lm" if kind_of(model) == "MaskedLM" else None
        content = huggingface_config(encoder_of(model).config, head)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    if hasattr(model, "tokenizer"):
        model.tokenizer.save_pretrained(directory)
    if hasattr(model, "save_more"):
        model.save_more(directory)
