"""How served texts, and a model's answers to them, differ from those it was trained on."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.inputs.blocks import blocks
from keras_bert_impl.tasks.registry import task_of_model
from keras_bert_impl.tasks.scores.drift import Comparison, compare_classes, compare_numbers


@dataclasses.dataclass
class Sample:
    """What is compared of texts and of the answers to them.

    Attributes:
        numbers: lists by name: `tokens` and `unknown tokens` of each text, and the numbers of its
            answer, such as `score`.
        classes: lists by name: `label`, or none for answers without names.
    """

    numbers: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    classes: dict[str, list[str]] = dataclasses.field(default_factory=dict)


def sample_of(model: Any, texts: Iterable) -> Sample:
    """Predicts texts, a block at a time, and returns what `compare_samples` takes."""
    task, sample = task_of_model(model), Sample()
    for block in filter(None, blocks(texts)):
        for name, values in _of_texts(model.tokenizer, block).items():
            sample.numbers.setdefault(name, []).extend(values)
        for answer, _ in task.predictions(model, block):
            for name, value in _numbers(answer):
                sample.numbers.setdefault(name, []).append(value)
            for name in _classes(answer):
                sample.classes.setdefault("label", []).append(name)
    if not sample.numbers:
        raise InputError("there are no texts to compare.")
    return sample


def compare_samples(reference: Sample, served: Sample) -> dict[str, Comparison]:
    """Compares each quantity that both samples have."""
    compared = {
        name: compare_numbers(values, served.numbers[name])
        for name, values in reference.numbers.items()
        if name in served.numbers
    }
    for name, names in reference.classes.items():
        if name in served.classes:
            compared[name] = compare_classes(names, served.classes[name])
    return compared


def _of_texts(tokenizer, block) -> dict[str, list[float]]:
    """Returns the number of tokens of each text or pair, and the fraction that is unknown."""
    if not all(isinstance(part, str) for item in block for part in _parts(item)):
        return {}
    parts = [part for item in block for part in _parts(item)]
    owners = np.repeat(np.arange(len(block)), [len(_parts(item)) for item in block])
    tokens = tokenizer.tokenize(parts)
    sizes = tokens.row_lengths().numpy()
    is_unknown = tokens.values.numpy() == tokenizer.unk_id
    lengths = np.bincount(owners, sizes, len(block))
    unknown = np.bincount(np.repeat(owners, sizes), is_unknown, len(block))
    return {
        "tokens": lengths.tolist(),
        "unknown tokens": (unknown / np.maximum(lengths, 1)).tolist(),
    }


def _parts(item):
    """Returns the texts of a text, of a pair, or of a prompt with a list of endings."""
    if isinstance(item, (list, tuple)):
        return [part for one in item for part in _parts(one)]
    return [item]


def _numbers(answer) -> Iterator[tuple[str, float]]:
    for name, value in answer.items():
        if isinstance(value, float):
            yield name, value
        elif name == "values":  # of a regression
            yield from ((f"value {number}", one) for number, one in enumerate(value))
        elif name == "entities":
            yield name, float(len(value))


def _classes(answer) -> list[str]:
    """Returns the names in an answer, such as its label or the types of its entities."""
    if "label" in answer:
        return [answer["label"]]
    if "entities" in answer:
        return [entity["type"] for entity in answer["entities"]] or ["(none)"]
    if "labels" in answer:
        return answer["labels"] or ["(none)"]
    if "choice" in answer:
        return [f"choice {answer['choice'] + 1}"]
    if "answer" in answer:
        return ["answer" if answer["answer"] else "(none)"]
    return []
