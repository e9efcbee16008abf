"""Readers of the GLUE tasks in their published layout."""

import dataclasses
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.tasks.data.examples import Examples, Layout, examples_of
from keras_bert_impl.tasks.data.tables import tsv_rows


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Location and contents of a task's files.

    Attributes:
        folder: subfolder of the GLUE folder.
        text, pair, label: names of columns.
        labels: value in the file -> name; None for regression.
        metrics: keys of `metrics.METRICS`, the official one first.
        columns: column names if train and dev have no header.
        allow_empty: whether the published files have empty texts.
        id: column of unique numbers.
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
    # Some published questions contain a line break and so become two lines with too few cells:
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
        directory: the folder that contains `CoLA`, `SST-2`, ..., or one of these.
        split: `"train"`, `"dev"` or `"test"`, which has no labels. For MNLI, `"dev"` is
            `"dev_matched"`, and there is also `"dev_mismatched"`. The diagnostic set has `"dev"`,
            `diagnostic-full.tsv`, and `"test"`, `diagnostic.tsv`; it is for models of MNLI.
        skip_bad_rows: whether to skip invalid rows; they are counted in a warning and listed in
            `skipped`.

    Returns:
        `Examples` with class indices as labels, or floats from 0 to 5 for STS-B.

    Raises:
        InputError: the task is unknown, a file is missing, or a row is invalid; the message says
            where.

    Example:
        from keras_bert_impl.tasks import read_glue
        read_glue("mrpc", "glue", "dev").labels[0]  # 1
    """
    if task not in TASKS:
        raise InputError(f"unknown GLUE task {task!r}. Choose one of {', '.join(TASKS)}.")
    spec = TASKS[task]
    is_test = split.startswith("test")
    if task == "diagnostic" and is_test:
        # The labels are published separately, and this file has other column names.
        spec = dataclasses.replace(spec, text="sentence1", pair="sentence2", id="index")
    path = find_file(directory, spec.folder, _name_of(task, split))
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
    examples = examples_of(path, rows, layout, skip_bad_rows)
    read_with = {"task": task, "data": str(directory), "skip_bad_rows": skip_bad_rows}
    examples = dataclasses.replace(examples, read_with=read_with)
    return with_names(examples, spec.labels, spec.metrics)


def has_glue(task: str, directory: str | Path, split: str) -> bool:
    """Whether a GLUE folder has the file of a split; for arguments see `read_glue`."""
    places = _places(directory, TASKS[task].folder, _name_of(task, split))
    return any(path.is_file() for path in places)


def _name_of(task, split):
    return _FILES.get((task, split), split) + ".tsv"


def find_file(directory: str | Path, folder: str, name: str) -> Path:
    """Finds a file in a folder of a directory, or in the directory itself."""
    for path in _places(directory, folder, name):
        if path.is_file():
            return path
    raise InputError(f"{directory} has neither {folder}/{name} nor {name}.")


def _places(directory, folder, name):
    return local_path(directory) / folder / name, local_path(directory) / name


def with_names(
    examples: Examples, names: dict[str, str] | None, metrics: tuple[str, ...] | None
) -> Examples:
    """Replaces the values of the label column by class indices."""
    if names is None:
        return dataclasses.replace(examples, metrics=metrics)
    labels, label_names = examples.labels, list(dict.fromkeys(names.values()))
    if labels is not None:
        labels = [label_names.index(names[value]) for value in labels]
    return dataclasses.replace(examples, labels=labels, label_names=label_names, metrics=metrics)
