"""Exports a model to another runtime. Writes files only if the outputs match the model."""

import dataclasses
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import keras

from keras_bert_impl.checkpoints.cards import as_code, as_code_block, export_card, save_card
from keras_bert_impl.checkpoints.interop import huggingface_config
from keras_bert_impl.serving.graphs.formats import (
    NETWORK_ENTRIES,
    check_drop,
    check_target,
    save_tokenizer,
)
from keras_bert_impl.serving.graphs.networks import Network, encoder_of, network_of
from keras_bert_impl.serving.network.proof import (
    SAMPLES,
    WARN_FROM,
    ChangedNeighbors,
    answered_by,
    changed_neighbors,
    features_of,
    relative_difference,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.settings import OneOf, check
from keras_bert_impl.utils.version import __version__

# Maximum output difference, relative to the root mean square of the model's outputs. float32 has
# 24 significant bits, float16 has 11 and bfloat16 has 8. The sums of a deep network lose some of
# these bits. For int8, the limit only detects broken files; task scores measure the quality.
_TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 0.16, "int8": 0.5}
_CALIBRATION_BATCH = 8
_ADVICE = (
    "Precision fp16 is more accurate, and so is int8 without calibration in OpenVINO. Evaluate the "
    "search on your texts before you deploy it."
)
_TOKEN_IDS = "The inputs are token ids, `[batch, length]` of any size{}."
_LOG = logging.getLogger(__name__)
_COMPARED = 64  # maximum number of texts in the batch that is compared


@dataclasses.dataclass(frozen=True)
class Format:
    """An export format.

    Attributes:
        name: name of the format in messages.
        write: function `(model, directory, precision, batches)` that writes a model. `batches` is a
            list of feature batches for calibration, or None.
        session: function `(directory, config)` that loads an exported model. The loaded model is a
            function from features to a dict of output name -> array.
        use: Python code for the model card, to load the model and print the inputs and outputs.
        precisions: precisions that the format supports.
        network: function `(model)` that returns the exported `Network`.
        ask: function `(directory, session, texts)` for formats with texts as inputs. The return
            value is a sentence about the texts for which the tokenizer of the runtime changes the
            prediction.
        inputs: description of the inputs for the model card. `{}` is replaced by a note on the
            tokenizer.
    """

    name: str
    write: Callable
    session: Callable
    use: str
    precisions: tuple[str, ...] = ("fp32", "fp16", "int8")
    network: Callable[[keras.Model], Network] = network_of
    ask: Callable[[Path, Callable, list[str]], str] | None = None
    inputs: str = _TOKEN_IDS


@dataclasses.dataclass(frozen=True)
class Report:
    """Result of an export.

    Attributes:
        difference: relative difference between the outputs of the exported model and the original.
        before, after: scores of the original and of the exported model; None if not measured.
        bytes: size of the exported files of the network.
        neighbors: texts whose nearest neighbor changes; None if the model is not an embedder.
        answers: return value of `Format.ask`.
    """

    difference: float
    before: float | None
    after: float | None
    bytes: int
    neighbors: ChangedNeighbors | None = None
    answers: str | None = None


def export_network(
    model: keras.Model,
    directory: str | Path,
    file_format: Format,
    precision: str = "fp32",
    texts: list[str] | None = None,
    calibration: list[str] | None = None,
    measure: Callable[[keras.Model], float] | None = None,
    max_drop: float | None = None,
    run: str | Path | None = None,
    tokenizer: Tokenizer | None = None,
) -> Report:
    _check(precision, file_format.precisions, calibration, measure, max_drop)
    for name, value in (("texts", texts), ("calibration", calibration)):
        if value is not None and (isinstance(value, (str, bytes, Path)) or not value):
            raise InputError(f"{name} must be a list of at least one text. Received: {value!r:.60}")
    check_target(directory, NETWORK_ENTRIES)
    network = file_format.network(model)
    tokenizer = tokenizer or getattr(model, "tokenizer", None)
    with replace_directory(directory) as temporary:
        file_format.write(model, temporary, precision, _make_batches(model, calibration))
        session = file_format.session(temporary, encoder_of(model).config)
        features = features_of(model, texts and texts[:_COMPARED])
        difference = _compare(session, network, features, _TOLERANCES[precision], file_format.name)
        before = after = None
        if measure is not None:
            before, after = _measure(session, model, measure, max_drop)
        neighbors = None
        if hasattr(model, "similarity") and precision != "fp32":
            neighbors = changed_neighbors(model, model, texts, session)
            if neighbors.share >= WARN_FROM:
                _LOG.warning("%s in %s: %s. %s", file_format.name, precision, neighbors, _ADVICE)
        ask = file_format.ask
        answers = None if ask is None else ask(temporary, session, texts or SAMPLES)
        size = sum(file.stat().st_size for file in temporary.iterdir())
        _write_more(model, tokenizer, temporary)
        report = Report(difference, before, after, size, neighbors, answers)
        card = model_card(
            model,
            local_path(directory).absolute().name,
            f"{file_format.name} in {precision}",
            file_format.use,
            _describe_check(report),
            run,
            has_tokenizer=tokenizer is not None,
            inputs=file_format.inputs,
        )
        save_card(card, temporary, directory)
    return report


def _check(precision, precisions, calibration, measure, max_drop):
    check("precision", precision, Annotated[str, OneOf(*precisions)])
    if calibration is not None and precision != "int8":
        raise InputError("calibration requires precision int8.")
    if max_drop is not None and measure is None:
        raise InputError("max_drop requires labeled examples to score the model on.")


def _make_batches(model, texts):
    if texts is None:
        return None
    starts = range(0, len(texts), _CALIBRATION_BATCH)
    return [features_of(model, texts[start : start + _CALIBRATION_BATCH]) for start in starts]


def _compare(session, network, features, tolerance, name):
    received, expected = session(features), network.outputs_of_model(features)
    difference = relative_difference(received, expected, features["padding_mask"])
    if difference > tolerance:
        raise InputError(
            f"the outputs of the {name} file and of the model differ by a relative error of "
            f"{difference:.2g}, more than {tolerance:.2g}. Nothing was written."
        )
    return difference


def _measure(session, model, measure, max_drop):
    before = measure(model)
    with answered_by(session, model):
        after = measure(model)
    check_drop(before, after, max_drop)
    return before, after


def _describe_check(report):
    text = (
        f"The outputs differ from the Keras model by at most {report.difference:.1g}, relative "
        "to the root mean square of the outputs."
    )
    if report.before is not None:
        text += (
            f" The score is {report.before:.2f} before the export, and {report.after:.2f} after."
        )
    if report.neighbors is not None:
        text += f" For semantic search, {report.neighbors}."
    if report.answers is not None:
        text += f" {report.answers}."
    return text


def _write_more(model, tokenizer, directory):
    if hasattr(model, "file_config"):
        content = model.file_config()
    else:
        content = huggingface_config(encoder_of(model).config, getattr(model, "head", None))
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    if tokenizer is not None:
        save_tokenizer(tokenizer, model, directory)
    if hasattr(model, "save_more"):
        model.save_more(directory)


# === Model cards ===


def model_card(
    model: keras.Model,
    name: str,
    how: str,
    use: str,
    check: str,
    run: str | Path | None = None,
    has_tokenizer: bool = True,
    inputs: str = _TOKEN_IDS,
) -> str:
    source = ", from the tokenizer in this folder" if has_tokenizer else ""
    sections = [
        "## Use",
        f"{inputs.format(source)} In Python:\n\n" + as_code_block(use.rstrip(), "python"),
        *_describe_preparation(model),
        "## Check",
        check,
    ]
    note = f". Exported to {how} by keras_bert_impl {__version__}."
    return export_card(model, name, encoder_of(model).config, note, sections, run)


def _describe_preparation(model):
    prompt = getattr(model, "prompts", {}).get(getattr(model, "default_prompt_name", None), "")
    lines = []
    if prompt:
        code = as_code(json.dumps(prompt, ensure_ascii=False))
        lines.append(
            f"Put the prompt {code} before each text, because the tokenizer does not add it."
        )
    if getattr(model, "do_lower_case", False):
        lines.append("Convert each text to lower case before it is tokenized.")
    return lines
