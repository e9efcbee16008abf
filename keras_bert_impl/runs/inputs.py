"""Inputs of a fine-tuning run: the model and the labeled examples."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.interop import fingerprint, open_model
from keras_bert_impl.checkpoints.interop.sentence_transformers import (
    read_projections,
    read_sentence_settings,
)
from keras_bert_impl.data.tables import user_input
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.registry import all_tasks, task_of_examples
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import file_within, path_within
from keras_bert_impl.utils.io.run_files import read_run_file


def model_directory(path: str | Path) -> str | Path:
    """Returns the model directory if `path` is a run, otherwise `path`."""
    directory = path_within(path, "model")
    return directory if directory.is_dir() else path


def with_metric_of(run: str | Path, examples: LabeledExamples) -> LabeledExamples:
    """Returns a copy of the examples, with the metric of the run as the first score."""
    data = file_within(run, "data.json")
    if not data.is_file():
        return examples
    metric = read_run_file(data, lambda data: data.mapping("compared_by").text("metric", None))
    return task_of_examples(examples).with_metric(examples, metric)


def made_of(
    settings: FinetuneSettings, train: LabeledExamples, dev: LabeledExamples
) -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = {
        name: {"source": data.source, "examples": len(data), "sha256": data.fingerprint}
        for name, data in (("train", train), ("dev", dev))
    }
    for name in ("model", "teacher"):
        path = getattr(settings, name)
        if path:  # The teacher may be a run directory.
            read[name] = {"source": str(path), **_compute_checksums(model_directory(path))}
    return read


def _compute_checksums(path):
    """Returns the checksums of a model, its tokenizer and its sentence-embedding settings."""
    source = open_model(path)
    settings = read_sentence_settings(source.task_path)
    sentences = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for tensors in read_projections(source.task_path) if settings else ():
        for name in sorted(tensors):
            sentences.update(f"{name} {tensors[name].shape}".encode() + tensors[name].tobytes())
    return {
        "sha256": fingerprint(path),
        "tokenizer": Tokenizer.from_pretrained(source.path).fingerprint,
        "sentences": sentences.hexdigest(),
    }


def as_examples(data: Any, name: str) -> LabeledExamples:
    if not isinstance(data, tuple):
        if not isinstance(data, LabeledExamples):
            raise InputError(
                f"{name} must be examples from a reader such as read_table, or (texts, labels). "
                f"Received: {data!r:.60}"
            )
        return data
    if len(data) != 2:
        raise InputError(f"{name} must be (texts, labels). Received: a tuple of length {len(data)}")
    texts, labels = (_convert_to_list(part, name) for part in data)
    if not texts:
        raise InputError(f"{name} has no texts. Pass at least one text with its label.")
    if len(texts) != len(labels):
        raise InputError(f"{name} has {len(texts)} texts, but {len(labels)} labels.")
    converted = (task.examples_of(texts, labels, name) for task in all_tasks())
    return next(examples for examples in converted if examples is not None)


def with_named_classes(*sets: LabeledExamples) -> tuple[LabeledExamples, ...]:
    return task_of_examples(sets[0]).with_named_classes(*sets)


def read_options(
    train: LabeledExamples, dev: LabeledExamples, task: str | None
) -> dict[str, Any] | None:
    """Returns the `keras-bert` options that read these examples.

    Returns None if `dev.read_with` is None.
    """
    if dev.read_with is None:
        return None
    options = {"task": task, **dev.read_with, "train": (train.read_with or {}).get("dev")}
    if options.get("dev_split"):
        options["train"], options["dev"] = options["dev"], None
    # With `tfds`, `train` and `dev` are names of splits, not files.
    places = ("data",) if options.get("tfds") else ("train", "dev", "data")
    for name in places:
        if isinstance(options.get(name), list):
            options[name] = [str(Path(path).absolute()) for path in options[name]]
        elif options.get(name):
            options[name] = str(Path(options[name]).absolute())
    return options


def _convert_to_list(values, name):
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise InputError(
            f"{name} must be a list of texts and a list of labels. Received: {values!r:.60}"
        )
    values = user_input.values(list(values) if user_input.is_stream(values) else values)
    return [value.item() if isinstance(value, np.generic) else value for value in values]
