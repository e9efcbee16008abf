"""Checks labels and class names; reads and writes the class names in `config.json`."""

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert_impl.data.tables.examples import index_of_name, made_names, not_one_of, number_in
from keras_bert_impl.data.tables.user_input import is_missing, values
from keras_bert_impl.utils.errors import InputError, listed, shown
from keras_bert_impl.utils.settings import PositiveInt, check

if TYPE_CHECKING:
    from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
    from keras_bert_impl.checkpoints.interop.source import ModelSource

# Kinds of labels: one class, any number of classes, or numbers.
SINGLE = "single_label_classification"
MULTI = "multi_label_classification"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE, MULTI, REGRESSION)
ABOUT_SEVERAL = f" If a text may have several labels, create the model with problem_type={MULTI!r}."

_LOG = logging.getLogger(__name__)
_MOST_CLASSES = 1 << 20  # maximum number of classes in a file
# Larger weights could overflow float32 in the loss or the squared gradients.
MOST_WEIGHT = 1e9


def label_names(num_classes: int | None, labels: list[str] | None) -> list[str]:
    """Checks the class names. If `labels` is None, the names are `LABEL_0`, `LABEL_1`, ..."""
    if labels is None:
        if num_classes is None:
            raise InputError("pass num_classes or labels (the class names).")
        return made_names(check("num_classes", num_classes, PositiveInt))
    if isinstance(labels, (str, bytes, dict, set, frozenset)):
        raise InputError(
            "labels must be a list of class names in the order of their indices. Received: "
            f"labels={labels!r:.80}"
        )
    labels = list(labels)
    if not labels or not all(isinstance(label, str) for label in labels):
        raise InputError(
            f"labels must be strings. Received: labels={labels!r:.80}; for unnamed classes pass "
            "num_classes."
        )
    labels = list(map(str, labels))  # converts NumPy strings
    if len(set(labels)) != len(labels):
        raise InputError(f"labels must be unique. Received: labels={labels!r:.80}")
    if num_classes not in (None, len(labels)):
        raise InputError(f"num_classes={num_classes}, but there are {len(labels)} labels.")
    return labels


def sort_names(names: Iterable[str]) -> list[str]:
    """Sorts class names. If all names are numbers, such as "0" to "11", sorts them as numbers."""
    distinct = set(names)
    if all(isinstance(name, str) and number_in(name) is not None for name in distinct):
        return sorted(distinct, key=lambda name: (number_in(name), name))
    return sorted(distinct)


def check_several(names: list[str], source: str | None = None, unit: str = "texts") -> None:
    if len(names) > 1:
        return
    if source is None:
        raise InputError("a classifier requires at least two classes. Pass num_classes=2.")
    raise InputError(f"{source}: all {unit} have the label {names[0]!r}.")


def label_values(labels: Any, count: int) -> list | np.ndarray:
    if hasattr(labels, "numpy") and not isinstance(labels, np.ndarray):
        labels = np.asarray(labels)
    if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "biuf":
        labels = values(labels)
    if len(labels) != count:
        raise InputError(f"{count} texts, but {len(labels)} labels.")
    if isinstance(labels, list):
        for position, label in enumerate(labels):
            if is_missing(label):
                raise InputError(f"text {position} has no label ({label}). Remove such texts.")
    return labels


def number_of(name: Any, position: int, indices: dict[str, int]) -> int:
    name = name.decode() if isinstance(name, bytes) else name
    if not isinstance(name, str) or name not in indices:
        wrong = f"text {position}: {not_one_of(name, indices)}"
        if isinstance(name, str) and list(indices) == made_names(len(indices)):
            wrong += " Pass the class names when creating or loading the model: labels=[...]."
        raise InputError(wrong)
    return indices[name]


def check_weights(weights: Any, count: int, per_token: bool = False) -> np.ndarray:
    try:
        array = np.asarray(values(weights), "float32")
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"sample_weight must have one number per text. Received: {weights!r:.60}"
        ) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape[:1] != (count,) or array.ndim > 1 + per_token:
        raise InputError(f"{count} texts, but sample_weight has shape {array.shape}.")
    wrong = np.argwhere(~((array >= 0) & (array <= MOST_WEIGHT)))
    if len(wrong):
        raise InputError(
            f"sample_weight of text {wrong[0][0]} must be from 0 to {MOST_WEIGHT:g}. "
            f"Received: {array[tuple(wrong[0])]}"
        )
    return array


def with_labels(
    source: "ModelSource", arguments: dict[str, Any], last: str | None, without: str
) -> dict[str, Any]:
    """Adds the class names from `config.json` to the arguments of a task model."""
    if arguments.get("labels") is not None:
        return dict(arguments)
    stated, count = _read_stated_labels(source), arguments.get("num_classes")
    if last is None and stated and stated == made_names(len(stated)):
        stated = None  # `transformers` writes default names if the classes have no names
    if count is not None and count != len(stated or ()):
        return dict(arguments)
    if stated is None and last is None:
        raise InputError(f"{source.path} is {without}; pass num_classes or labels.")
    shape = None if last is None else source.shape(last)
    if stated is None:
        rows = 2 if shape is None else shape[0]  # 2 is the default of `transformers`
        number = source.config.integer("num_labels", rows, least=1, most=_MOST_CLASSES)
        stated = label_names(number, None)
    if count is None and shape is not None and shape[0] != len(stated):
        raise InputError(
            f"{source.config.source} has {len(stated)} labels, but tensor {last} has shape {shape}."
        )
    return {**arguments, "labels": stated}


def classes_in_head(source: "ModelSource", labels: list[str]) -> list[int] | None:
    """Returns the index of each label in the saved head, or -1 if the label is new.

    Returns None if the labels are the same, or if no label is in the saved head. Generated names,
    such as `LABEL_0`, do not identify a class.
    """
    stated = _read_stated_labels(source, warn=lambda *args: None)
    if stated is None or stated == labels or made_names(len(stated)) == stated:
        return None
    indices = index_of_name(stated)
    return [indices.get(label, -1) for label in labels] if indices.keys() & {*labels} else None


def _read_stated_labels(source, warn=_LOG.warning):
    """Reads the class names in `config.json`; makes duplicate names unique, with a warning."""
    names = source.config.mapping("id2label", None)
    if not names:
        return None
    if not all(re.fullmatch("[0-9]{1,9}", key) for key in names):
        raise source.config.error("id2label", 'an object that maps "0", "1", ... to class names')
    keys = {int(key): key for key in names}
    labels, used_names = [], set()
    for number in range(len(names)):
        key = keys.get(number)
        if key is None:
            warn("%s: id2label has no name for class %d", source.config.source, number)
        label = f"LABEL_{number}" if key is None else _label(names, key)
        while label in used_names:
            warn("%s: two classes are named %s", source.config.source, shown(label))
            label = f"{label}_{number}"
        labels.append(label)
        used_names.add(label)
    # Users who rename labels often change only one dict; `transformers` does not check this.
    indices = source.config.mapping("label2id")
    if any(indices.get(label, i) not in (i, str(i)) for i, label in enumerate(labels)):
        warn("%s: label2id contradicts id2label; id2label is used", source.config.source)
    return labels


def _label(names, key):
    return str(names.setting(key, str | int | float))


def label_config(labels: list[str]) -> dict[str, dict]:
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": index_of_name(labels),
    }


def tensors_to_read(
    source: "ModelSource",
    names: list["TensorName"],
    num_classes: int,
    classes: list[int] | None = None,
) -> list["TensorName"]:
    """Returns the head tensors to load: none if the number of classes in the file differs.

    Args:
        classes: result of `classes_in_head`. If it is not None, the tensors of the classes are not
            returned; see `copy_classes`.
    """
    shape = source.shape(names[-1].tensor)
    if classes is not None and shape is not None:
        for name in filter(has_classes, names):
            source.read(name.tensor)  # `load_weights` must not report it as not loaded
        return [name for name in names if not has_classes(name)]
    if shape is None or shape[0] == num_classes:
        return names
    _LOG.warning(
        "%s has a classifier for %d classes; a new classifier for %d classes is initialized.",
        source.path,
        shape[0],
        num_classes,
    )
    return []


def has_classes(name: "TensorName") -> bool:
    """Returns whether a head tensor has an axis of classes."""
    parts = name.variable.split("/")
    return parts[0] == "crf" or parts[-2] == "dense"


def copy_classes(
    model: Any, source: "ModelSource", names: list["TensorName"], classes: list[int]
) -> None:
    """Copies the head weights of each class that the saved head has; the others stay random.

    Args:
        names: tensors of the head.
        classes: result of `classes_in_head`.
    """
    variables = {variable.path: variable for variable in model.weights}
    new, old = np.array([(i, k) for i, k in enumerate(classes) if k >= 0]).T
    saved_names = [n for n in names if has_classes(n) and source.shape(n.tensor) is not None]
    for name in saved_names:
        saved = source.read(name.tensor)
        saved = saved.T if name.transpose else saved
        if saved.shape[-1] <= old.max():
            raise InputError(
                f"{source.config.source} has more labels than tensor {name.tensor}, whose shape is "
                f"{source.shape(name.tensor)}."
            )
        variable = variables[name.variable]
        values = variable.numpy().copy()
        if name.variable == "crf/transitions":
            values[np.ix_(new, new)] = saved[np.ix_(old, old)]
        else:
            values[..., new] = saved[..., old]
        variable.assign(values)
    if saved_names and -1 in classes:
        _LOG.warning(
            "%s: the classifier keeps the weights of %s; newly initialized: %s",
            source.path,
            listed([model.labels[number] for number in new]),
            listed([label for label, k in zip(model.labels, classes) if k < 0]),
        )


def class_indices(labels: Any) -> np.ndarray:
    """Converts labels to class indices; tokens without a label get a negative index.

    Args:
        labels: class indices, int `[...]`; or one-hot or soft labels, float `[..., classes]`.
    """
    labels = np.asarray(labels)
    if labels.dtype.kind != "f":
        return labels
    return np.where(labels.any(axis=-1), labels.argmax(axis=-1), -1).astype("int32")


def check_token_labels(labels: Any, mask: np.ndarray, sample_weight: Any, names: list[str]) -> None:
    """Raises if token labels do not have the shape of the features, or if padding has labels.

    Args:
        labels: class indices [batch, length], negative for tokens without a label; or one-hot
            labels [batch, length, classes].
        mask: [batch, length], 0 for padding.
        sample_weight: [batch], [batch, length] or None. Padding may have labels with weight 0.
    """
    if all(np.ndim(row) == 2 for row in labels):
        labels = class_indices(labels)
    shapes = [np.shape(row) for row in labels]
    if shapes != [mask.shape[1:]] * len(mask):
        raise InputError(
            f"labels must have the shape of the features, {list(mask.shape)}, and be negative "
            "for unlabeled tokens."
        )
    learned = np.asarray(labels) >= 0
    if sample_weight is not None:
        learned &= np.broadcast_to(np.asarray(sample_weight).T, mask.T.shape).T != 0
    labeled_padding = np.argwhere(learned & (mask == 0))
    if len(labeled_padding):
        row, column = labeled_padding[0]
        raise InputError(
            f"labels, row {row}, position {column}: label {names[labels[row][column]]!r} "
            f"is on padding ({len(labeled_padding)} in total); labels of padding must be negative."
        )
