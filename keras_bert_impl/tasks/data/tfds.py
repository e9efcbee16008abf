"""Reader of labeled texts from TensorFlow Datasets."""

import dataclasses
import functools
from pathlib import Path

from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.io.tfds import open_dataset
from keras_bert_impl.tasks.data.examples import Examples, Layout, examples_of
from keras_bert_impl.tasks.data.glue import with_names


def read_tfds(
    name: str | Path,
    split: str,
    text: str,
    pair: str | None = None,
    label: str | None = None,
    data_dir: str | Path | None = None,
    skip_bad_rows: bool = False,
) -> Examples:
    """Reads a split of a TensorFlow Datasets dataset.

    A prepared dataset is read without a network; others are downloaded first. The directory of a
    prepared dataset may be given instead of its name.

    Args:
        name: such as `"imdb_reviews"` or `"glue/mrpc"`; or a directory with `dataset_info.json`.
        split: such as `"train"` or `"train[:80%]"`.
        text, pair: the features of the text and of the second segment.
        label: the feature of the label: a `ClassLabel`, or a number for regression. None for texts
            without labels.
        data_dir: location of prepared datasets. Default: that of the library.
        skip_bad_rows: whether to skip invalid examples; they are counted in a warning and listed
            in `skipped`.

    Returns:
        `Examples` with class indices, or floats for regression.

    Raises:
        InputError: the dataset, split or feature does not exist; or a text is empty or not UTF-8,
            or a label is missing, and the message says which example.

    Example:
        from keras_bert_impl.tasks import read_tfds
        read_tfds("imdb_reviews", "train", text="text", label="label").label_names  # ["neg", "pos"]
    """
    dataset, features = open_dataset(name, split, data_dir)
    for feature in (text, pair, label):
        if feature is not None and feature not in features:
            raise InputError(f"{name} has no feature {feature!r}. Found: {listed(features)}")
    names = getattr(features[label], "names", None) if label is not None else None
    numeric = label is not None and names is None
    layout = Layout(text, pair, label, labels=names, numeric=numeric)
    rows = (
        (number, functools.partial(_row, example, layout.columns, label, names))
        for number, example in enumerate(dataset.as_numpy_iterator())
    )
    source = f"{name}, split {split}"
    examples = examples_of(source, rows, layout, skip_bad_rows, unit="example")
    if data_dir is None:  # else a command would look elsewhere
        columns = {"text": text, "pair": pair, "label": label, "skip_bad_rows": skip_bad_rows}
        examples = dataclasses.replace(
            examples, read_with={"tfds": str(name), "dev": split} | columns
        )
    return with_names(examples, names and {name: name for name in names}, None)


def _row(example, columns, label, names):
    return {
        column: _label(example[column], names) if column == label else _text(example, column)
        for column in columns
    }


def _text(example, column):
    value = example[column]
    if not isinstance(value, bytes):
        raise InputError(f"feature {column!r} is not text.")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"feature {column!r} is not UTF-8 (byte {error.start}).") from error


def _label(value, names):
    """Converts the label to a str: the name of a class, or a number."""
    if names is None:
        if getattr(value, "ndim", 1) or value.dtype.kind not in "fiu":
            raise InputError("the label is neither a class nor a number.")
        return repr(float(value))
    if not 0 <= value < len(names):
        raise InputError(f"the label is {value}, so the example is unlabeled.")
    return names[value]
