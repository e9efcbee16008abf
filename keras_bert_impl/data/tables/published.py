"""Readers for published datasets: GLUE, XNLI, PAWS-X, TensorFlow Datasets."""

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any

from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tables.layout import Layout, examples_of
from keras_bert_impl.data.tables.table_rows import Table
from keras_bert_impl.data.tables.tables import tsv_rows
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.settings import OneOf, check
from keras_bert_impl.utils.tfds import open_dataset


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Files and columns of a GLUE task.

    Attributes:
        folder: subfolder of the GLUE folder.
        text, pair, label: names of columns.
        labels: dict of value in the file -> name; None for regression.
        metrics: keys of `metrics.METRICS`; the official metric comes first.
        columns: column names if train and dev have no header.
        allow_empty: whether the published files have empty texts.
        id: column of unique ids.
    """

    folder: str
    text: str
    pair: str | None
    label: str
    labels: dict[str, str] | None
    metrics: tuple[str, ...] = ("accuracy",)
    columns: list[str] | None = None
    allow_empty: bool = False
    id: str | None = None


_ENTAILMENT = {"entailment": "entailment", "not_entailment": "not_entailment"}
NLI = {name: name for name in ("entailment", "neutral", "contradiction")}

TASKS = {
    "cola": GlueTask(
        "CoLA",
        "sentence",
        None,
        "label",
        {"0": "unacceptable", "1": "acceptable"},
        ("matthews", "accuracy"),
        columns=["source", "label", "star", "sentence"],
    ),
    "sst2": GlueTask("SST-2", "sentence", None, "label", {"0": "negative", "1": "positive"}),
    "mrpc": GlueTask(
        "MRPC",
        "#1 String",
        "#2 String",
        "Quality",
        {"0": "not_equivalent", "1": "equivalent"},
        ("accuracy", "f1"),
    ),
    "stsb": GlueTask(
        "STS-B", "sentence1", "sentence2", "score", None, ("pearson", "spearman"), id="index"
    ),
    # Some published questions contain a line break, so the row is split into two invalid lines:
    # https://github.com/nyu-mll/GLUE-baselines/issues/5
    "qqp": GlueTask(
        "QQP",
        "question1",
        "question2",
        "is_duplicate",
        {"0": "not_duplicate", "1": "duplicate"},
        ("accuracy", "f1"),
        allow_empty=True,
    ),
    "mnli": GlueTask(
        "MNLI", "sentence1", "sentence2", "gold_label", NLI, allow_empty=True, id="index"
    ),
    "qnli": GlueTask("QNLI", "question", "sentence", "label", _ENTAILMENT, id="index"),
    "rte": GlueTask("RTE", "sentence1", "sentence2", "label", _ENTAILMENT, id="index"),
    "wnli": GlueTask(
        "WNLI",
        "sentence1",
        "sentence2",
        "label",
        {"0": "not_entailment", "1": "entailment"},
        id="index",
    ),
    "diagnostic": GlueTask(
        "diagnostic", "Premise", "Hypothesis", "Label", NLI, metrics=("matthews", "accuracy")
    ),
}
_FILES = {
    ("mnli", "dev"): "dev_matched",
    ("mnli", "test"): "test_matched",
    ("diagnostic", "dev"): "diagnostic-full",
    ("diagnostic", "test"): "diagnostic",
}


def read_glue(
    task: str, directory: str | Path, split: str, skip_bad_rows: bool = False
) -> Examples:
    """Reads a split of a GLUE task.

    Args:
        task: `"cola"`, `"sst2"`, `"mrpc"`, ..., `"diagnostic"`.
        directory: the folder that contains `CoLA`, `SST-2`, ..., or one of these folders.
        split: `"train"`, `"dev"` or `"test"`. The test set has no labels. For MNLI, `"dev"` reads
            the matched set, and `"dev_mismatched"` reads the mismatched set. For `"diagnostic"`,
            `"dev"` reads `diagnostic-full.tsv`, and `"test"` reads `diagnostic.tsv`.
        skip_bad_rows: whether to skip invalid rows. A warning reports the number of skipped rows,
            and the attribute `skipped` lists them.

    Returns:
        `Examples` with class indices as labels, or floats from 0 to 5 for STS-B.

    Raises:
        InputError: the task is unknown, a file is missing, or a row is invalid.

    Example:
        from keras_bert_impl.tasks import read_glue
        read_glue("mrpc", "glue", "dev").labels[0]  # 1
    """
    if task not in TASKS:
        raise InputError(f"unknown GLUE task {task!r}. Choose one of {', '.join(TASKS)}.")
    spec = TASKS[task]
    is_test = split.startswith("test")
    if task == "diagnostic" and is_test:
        # The file of the test set has different column names and no labels.
        spec = dataclasses.replace(spec, text="sentence1", pair="sentence2", id="index")
    path = find_glue(task, split, directory)
    has_header = is_test or spec.columns is None
    layout = Layout(
        spec.text,
        spec.pair,
        label=None if is_test else spec.label,
        labels=None if spec.labels is None else list(spec.labels),
        numeric=spec.labels is None,
        allow_empty=spec.allow_empty,
        id=spec.id,
    )
    rows = tsv_rows(path, layout, None if has_header else spec.columns)
    examples = examples_of(path, Table(rows, "line"), layout, skip_bad_rows)
    read_with = {"task": task, "data": str(directory), "skip_bad_rows": skip_bad_rows}
    return _index_labels(examples, spec.labels, spec.metrics, read_with)


def find_glue(task: str, split: str, directory: str | Path) -> Path:
    return find_file(directory, TASKS[task].folder, _name_file(task, split))


def has_glue(task: str, directory: str | Path, split: str) -> bool:
    paths = _list_paths(directory, TASKS[task].folder, _name_file(task, split))
    return any(path.is_file() for path in paths)


def read_more_mnli(directory: str | Path, skip_bad_rows: bool = False) -> dict[str, Examples]:
    """Reads the MNLI sets `"mismatched"` and `"diagnostic"`, if the files exist."""
    sets = {"mismatched": ("mnli", "dev_mismatched"), "diagnostic": ("diagnostic", "dev")}
    return {
        name: read_glue(task, directory, split, skip_bad_rows)
        for name, (task, split) in sets.items()
        if has_glue(task, directory, split)
    }


def _name_file(task, split):
    return _FILES.get((task, split), split) + ".tsv"


def find_file(directory: str | Path, folder: str, name: str) -> Path:
    for path in _list_paths(directory, folder, name):
        if path.is_file():
            return path
    raise InputError(f"{directory} has neither {folder}/{name} nor {name}.")


def _list_paths(directory, folder, name):
    return local_path(directory) / folder / name, local_path(directory) / name


def _index_labels(examples, names, metrics, read_with):
    """Replaces label values (keys of `names`) by class indices."""
    labels, label_names = examples.labels, None
    if names is not None:
        label_names = list(dict.fromkeys(names.values()))
        labels = labels and [label_names.index(names[value]) for value in labels]
    return dataclasses.replace(
        examples, labels=labels, label_names=label_names, metrics=metrics, read_with=read_with
    )


# === XNLI and PAWS-X ===

_TRANSLATED_NLI = NLI | {"contradictory": "contradiction"}
_PARAPHRASE = {"0": "different", "1": "paraphrase"}


def read_xnli(
    directory: str | Path, split: str, language: str = "en", skip_bad_rows: bool = False
) -> Examples:
    """Reads one language of a split of XNLI.

    Args:
        directory: the folder that contains `XNLI-1.0` and, for the training set, `XNLI-MT-1.0`.
        split: `"train"`, `"dev"` or `"test"`.
        language: language code, such as `"de"`.
        skip_bad_rows: see `read_glue`.

    Returns:
        `Examples` with class indices.

    Raises:
        InputError: a file or language is missing, or a row is invalid.

    Source: Conneau et al. 2018, "XNLI", and the published files.

    Example:
        from keras_bert_impl.tasks import read_xnli
        read_xnli("data", "dev", "de").label_names  # ["entailment", "neutral", "contradiction"]
    """
    if split == "train":
        path = find_file(directory, "XNLI-MT-1.0/multinli", f"multinli.train.{language}.tsv")
        layout = Layout("premise", "hypo", "label", labels=list(_TRANSLATED_NLI))
        rows = tsv_rows(path, layout)
    else:
        path = find_file(directory, "XNLI-1.0", f"xnli.{split}.tsv")
        layout = Layout("sentence1", "sentence2", "gold_label", labels=list(NLI))
        rows = _filter_language(path, tsv_rows(path, layout), language)
    examples = examples_of(path, Table(rows, "line"), layout, skip_bad_rows)
    read_with = _collect_options("xnli", directory, language, skip_bad_rows)
    return _index_labels(examples, _TRANSLATED_NLI, ("accuracy",), read_with)


def read_paws_x(
    directory: str | Path, split: str, language: str = "en", skip_bad_rows: bool = False
) -> Examples:
    """Reads one language of a split of PAWS-X.

    Args:
        directory: the folder that contains `en`, `de`, ...
        split: `"train"` (machine translations, except for English), `"dev"` or `"test"`.
        language, skip_bad_rows: see `read_xnli`.

    Returns and raises: see `read_xnli`. The published files contain invalid rows, so pass
    `skip_bad_rows=True`. In the training sets, some texts are empty. In the other sets, the text
    `NS` marks a missing translation
    (https://github.com/google-research-datasets/paws/blob/master/pawsx/README.md).

    Source: Yang et al. 2019, "PAWS-X", and the published files.
    """
    train = "train" if language == "en" else "translated_train"
    names = {"train": train, "dev": "dev_2k", "test": "test_2k"}
    check("split", split, Annotated[str, OneOf(*names)])
    path = find_file(directory, language, names[split] + ".tsv")
    layout = Layout("sentence1", "sentence2", "label", labels=list(_PARAPHRASE))
    rows = _check_translated(tsv_rows(path, layout))
    examples = examples_of(path, Table(rows, "line"), layout, skip_bad_rows)
    read_with = _collect_options("paws_x", directory, language, skip_bad_rows)
    return _index_labels(examples, _PARAPHRASE, ("accuracy", "f1"), read_with)


def _collect_options(task, directory, language, skip_bad_rows):
    options = {"task": task, "data": str(directory), "language": language}
    return options | {"skip_bad_rows": skip_bad_rows}


def _check_translated(rows):
    def read_checked(read):
        row = read()
        if "NS" in (row["sentence1"].strip(), row["sentence2"].strip()):
            raise InputError("a text is 'NS', which marks a missing translation.")
        return row

    for line, read in rows:
        yield line, functools.partial(read_checked, read)


def _filter_language(path, rows, language):
    languages = set()
    for line, read in rows:
        try:
            row = read()
        except InputError:
            yield line, read
            continue
        languages.add(row.get("language"))
        if row.get("language") == language:
            yield line, functools.partial(dict, row)
    if language not in languages:
        codes = ", ".join(sorted(map(str, languages)))
        raise InputError(f"{path} has no rows in language {language!r}. Found: {codes}.")


# === TensorFlow Datasets ===


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

    The dataset is downloaded and prepared if necessary. The directory of a prepared dataset may be
    given instead of a name.

    Args:
        name: dataset name, such as `"imdb_reviews"` or `"glue/mrpc"`; or a directory with
            `dataset_info.json`.
        split: name or slice of a split, such as `"train"` or `"train[:80%]"`.
        text, pair: features of the text and of the second segment.
        label: feature of the label: a `ClassLabel`, or a number for regression. None for unlabeled
            texts.
        data_dir: folder of prepared datasets. Default: the folder that TensorFlow Datasets uses.
        skip_bad_rows: see `read_glue`.

    Returns:
        `Examples` with class indices, or floats for regression.

    Raises:
        InputError: the dataset, split or feature does not exist; a text is empty or not UTF-8; or
            a label is missing.

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
        (number, functools.partial(_convert_row, example, layout.columns, label, names))
        for number, example in enumerate(dataset.as_numpy_iterator())
    )
    source = f"{name}, split {split}"
    examples = examples_of(source, Table(rows, "example"), layout, skip_bad_rows)
    read_with: dict[str, Any] | None = None
    if data_dir is None:  # the command line has no option for `data_dir`
        read_with = {"tfds": str(name), "dev": split, "text": text, "pair": pair, "label": label}
        read_with["skip_bad_rows"] = skip_bad_rows
    return _index_labels(examples, names and {name: name for name in names}, None, read_with)


def _convert_row(example, columns, label, names):
    return {
        column: _label(example[column], names) if column == label else _decode_text(example, column)
        for column in columns
    }


def _decode_text(example, column):
    value = example[column]
    if not isinstance(value, bytes):
        raise InputError(f"feature {column!r} is not text.")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"feature {column!r} is not UTF-8 (byte {error.start}).") from error


def _label(value, names):
    if names is None:
        if getattr(value, "ndim", 1) or value.dtype.kind not in "fiu":
            raise InputError("the label must be a class or a number.")
        return repr(float(value))
    if not 0 <= value < len(names):
        raise InputError(f"the label is {value}, so the example is unlabeled.")
    return names[value]
