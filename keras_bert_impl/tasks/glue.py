"""The GLUE tasks in the layout in which they are published."""

import dataclasses
from pathlib import Path

from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks.tables import examples_of, read_tsv


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Where a task's files are and what is in them.

    Attributes:
        folder: str, below the GLUE folder.
        text, pair, label: names of columns; `pair` may be None.
        labels: dict of value in the file -> name; None for a regression.
        metrics: tuple of keys of `metrics.METRICS`, the official one first.
        columns: list of names where train and dev have no header.
        allow_empty: bool. Whether the published files have empty texts.
    """

    folder: str
    text: str
    pair: str | None
    label: str
    labels: dict | None
    metrics: tuple = ("accuracy",)
    columns: list | None = None
    allow_empty: bool = False


_ENTAILMENT = {"entailment": "entailment", "not_entailment": "not_entailment"}
_NLI = {name: name for name in ("entailment", "neutral", "contradiction")}

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
        "STS-B", "sentence1", "sentence2", "score", None, ("pearson", "spearman")
    ),
    "qqp": GlueTask(
        "QQP",
        "question1",
        "question2",
        "is_duplicate",
        {"0": "not_duplicate", "1": "duplicate"},
        ("accuracy", "f1"),
        allow_empty=True,
    ),
    "mnli": GlueTask("MNLI", "sentence1", "sentence2", "gold_label", _NLI, allow_empty=True),
    "qnli": GlueTask("QNLI", "question", "sentence", "label", _ENTAILMENT),
    "rte": GlueTask("RTE", "sentence1", "sentence2", "label", _ENTAILMENT),
    "wnli": GlueTask(
        "WNLI", "sentence1", "sentence2", "label", {"0": "not_entailment", "1": "entailment"}
    ),
}
_FILES = {("mnli", "dev"): "dev_matched", ("mnli", "test"): "test_matched"}


def read_glue(task, directory, split):
    """Reads a split of a GLUE task.

    Args:
        task: str, a key of `TASKS`: `"cola"`, `"sst2"`, `"mrpc"`, ...
        directory: str or `Path` of the folder that holds `CoLA`, `SST-2`, ..., or of one of these.
        split: `"train"`, `"dev"` or `"test"`, which has no labels; for MNLI `"dev"` is
            `"dev_matched"`.

    Returns:
        `Examples` with class numbers, or for STS-B floats from 0 to 5, as labels.

    Raises:
        InputError: an unknown task, a missing file, or a row that cannot be used; says where.

    Example:
        read_glue("mrpc", "glue", "dev").labels[0]  # 1
    """
    if task not in TASKS:
        raise InputError(f"there is no GLUE task {task!r}; there is {', '.join(TASKS)}.")
    spec = TASKS[task]
    name = _FILES.get((task, split), split) + ".tsv"
    path = Path(directory) / spec.folder / name
    if not path.is_file():
        path = Path(directory) / name
    if not path.is_file():
        raise InputError(f"{directory} has neither {spec.folder}/{name} nor {name}.")
    is_test = split.startswith("test")
    wanted = [spec.text, spec.pair] + ([] if is_test else [spec.label])
    examples = examples_of(
        path,
        read_tsv(path, None if is_test else spec.columns, [name for name in wanted if name]),
        spec.text,
        spec.pair,
        label=None if is_test else spec.label,
        labels=spec.labels and list(spec.labels),
        numeric=spec.labels is None,
        allow_empty=spec.allow_empty,
    )
    label_names = spec.labels and list(spec.labels.values())
    labels = examples.labels
    if labels and spec.labels:
        labels = [list(spec.labels).index(value) for value in labels]
    return dataclasses.replace(
        examples, labels=labels, label_names=label_names, metrics=spec.metrics
    )
