"""Gaps of labeled examples: labels for which scores on the examples say nothing."""

from collections.abc import Iterable
from typing import Any

from keras_bert_impl.io.errors import listed

_ONLY = "occurs only in the training set", "occur only in the training set"


def gaps_of(examples: Any, kind: str | None, labels: Iterable[str] = ()) -> list[str]:
    """Returns sentences about labels and predictions that scores on the examples do not cover.

    Args:
        examples: labeled examples to compute scores on.
        kind: kind of labels of the training set; see `LabeledExamples.label_counts`.
        labels: labels of the training set, such as classes or entity types.

    Example:
        from keras_bert_impl.tasks import Examples
        from keras_bert_impl.tasks.data.gaps import gaps_of
        len(gaps_of(Examples(["dull"], ["bad"]), "classes", ["bad", "good"]))  # 1
    """
    kind_of_examples, counts = examples.label_counts()
    if kind == "tags" and set(counts) <= {"O", "o"}:
        kind = "entities"
    counts = counts if kind_of_examples == kind else {}
    if kind == "numbers" and counts and counts["min"] == counts["max"]:
        return [
            f"all labels of the validation set are {counts['min']:g}, so correlations are "
            "undefined. Use a validation set with different labels."
        ]
    if kind == "entities" and not any(counts.values()):
        return [
            "the validation set contains no entity, so F1 is 0 or undefined for every model. Use "
            "a validation set with entities."
        ]
    if kind == "classes" and not any(counts.values()):
        return [
            "no example of the validation set has a label, so F1 is 0 or undefined for every "
            "model. Use a validation set with labels."
        ]
    if kind == "questions" and not all(counts.get(name) for name in labels):
        (absent,) = (name for name in labels if not counts.get(name))
        has = "an answer" if absent.startswith("with ") else "no answer"
        return [f"no question of the validation set has {has}. The scores do not cover this case."]
    if kind == "endings" and len(set(examples.labels or ())) == 1 < len(examples):
        return [
            f"ending {examples.labels[0] + 1} is always the right one in the validation set, so "
            "the accuracy does not show whether the model reads the texts. Shuffle the endings."
        ]
    missing = [name for name in labels if not counts.get(name)]
    if kind not in ("classes", "entities", "tags") or not missing:
        return []
    return [
        f"{listed(missing)} {_ONLY[len(missing) > 1]}, so the scores do not cover "
        f"{'it' if len(missing) == 1 else 'them'}. Add validation examples."
    ]
