"""The GLUE benchmark: a set of runs for each task, the score, and predictions of the test sets."""

import inspect
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

from keras_bert_impl.data.scores.comparison import BASELINES
from keras_bert_impl.data.tables.layout import Layout
from keras_bert_impl.data.tables.published import (
    TASKS,
    find_glue,
    has_glue,
    read_glue,
    read_more_mnli,
)
from keras_bert_impl.data.tables.tables import table_columns
from keras_bert_impl.finetuning.finetune import checked_runs, finetune_set, spread_of
from keras_bert_impl.reports.glue_page import write_glue_page
from keras_bert_impl.runs.prediction_table import Predicted, read_rows, table_writer
from keras_bert_impl.runs.run import load_tuned
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.registry import task_of_model
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import write_json
from keras_bert_impl.utils.io.lines import suffix_of
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import read_json
from keras_bert_impl.utils.settings import OneOf, check

# Settings of each task that replace the defaults of `FinetuneSettings`.
SETTINGS: dict[str, dict[str, Any]] = {
    "cola": {"epochs": 4, "learning_rate": 5e-5},
    "sst2": {"epochs": 2, "learning_rate": 3e-5, "max_length": 64},
    "mrpc": {"epochs": 4, "learning_rate": 5e-5},
    "stsb": {"epochs": 4, "learning_rate": 5e-5},
    "qqp": {"epochs": 3, "learning_rate": 3e-5},
    "mnli": {"epochs": 3, "learning_rate": 3e-5},
    "qnli": {"epochs": 3, "learning_rate": 3e-5},
    "rte": {"epochs": 5, "learning_rate": 5e-5},
    "wnli": {"epochs": 3, "learning_rate": 2e-5},
}
# Scores whose mean is the score of the task, if they differ from its metrics in `TASKS`.
_METRICS = {"cola": ("matthews",), "mnli": ("accuracy", "mismatched/accuracy")}
# File for the benchmark's server -> (task, split), for tasks with several files.
_TESTS = {
    "mnli": {
        "MNLI-m": ("mnli", "test_matched"),
        "MNLI-mm": ("mnli", "test_mismatched"),
        "AX": ("diagnostic", "test"),
    }
}
_SCORES = "scores.json"
_INDEX = (["index"], ["id"])  # first column of a test set; the last one is QQP's


def finetune_glue(
    model: str | Path,
    data: str | Path,
    output_directory: str | Path,
    grid: dict[str, list] | None = None,
    skip_bad_rows: bool = False,
    say: Callable[[str], Any] = lambda text: None,
    **options: Any,
) -> dict[str, Any]:
    """Fine-tunes a model on each task of GLUE and averages the scores as the benchmark does.

    The directory contains `cola`, `sst2`, ..., each written by `finetune_set`; `test`, the
    predictions of each task's best model for the test sets, in the format of the benchmark's
    server; `scores.json`, the return value of this function; and `report.html`. These files are
    updated after each task. An interrupted benchmark resumes.

    The score of a task is the mean of its metrics: Matthews correlation (CoLA), accuracy and F1
    (MRPC, QQP), Pearson and Spearman correlation (STS-B), accuracy on both sets (MNLI), accuracy
    (all others). The diagnostic set is scored with the MNLI model, but not included in the average.

    Args:
        model: see `finetune`.
        data: the folder that contains `CoLA`, `SST-2`, ... Tasks without a training or validation
            set are skipped.
        output_directory: directory to write.
        grid: settings to compare, such as `{"seed": [1, 2, 3]}`; see `finetune_set`. Default: one
            run per task.
        skip_bad_rows: see `read_glue`. QQP's published training set has invalid rows. An invalid
            row in a test set always raises.
        say: function that is called with the name of each run, and with the skipped tasks.
        **options: other arguments of `finetune_set`, and fields of `FinetuneSettings`. The fields
            apply to all tasks. They override the settings of single tasks, `SETTINGS`.

    Returns:
        A dict of `average`, the mean of the task scores; `tasks`, a dict of name -> `score`,
        `metrics`, `runs` (path -> score), `best` (path of the best run) and `baselines` (name ->
        score); and `skipped`, the names of the skipped tasks. `average`, `score` and each entry of
        `metrics` are dicts of `mean`, `std`, `min`, `max` over the seeds.

    Raises:
        InputError: no task has data, a setting is invalid for a task, or a row is invalid.
            Settings, training and validation sets are checked before the first run starts.

    Source: Wang et al. 2019, "GLUE" (arXiv:1804.07461).

    Example:
        from keras_bert_impl import finetune_glue
        finetune_glue("path/to/model", "glue", "benchmark", {"seed": [1, 2]}, epochs=1)["average"]
    """
    if options.get("metric"):
        raise InputError("each GLUE task has its own metrics: leave out metric.")
    directory, grid = local_path(output_directory), dict(grid or {})
    if "seed" not in grid:
        grid["seed"] = [options.pop("seed", FinetuneSettings.seed)]
    names = _find_tasks(data)
    skipped = [name for name in SETTINGS if name not in names]
    for name in skipped:
        say(f"skipped {name}: {data}/{TASKS[name].folder} has no training or no validation set")
    parameters = inspect.signature(finetune_set).parameters
    set_options = {key: options.pop(key) for key in parameters if key in options}
    task_settings = {
        name: {key: value for key, value in SETTINGS[name].items() if key not in grid} | options
        for name in names
    }
    for name in names:  # raises before the first run
        train, dev, _ = _read(name, data, skip_bad_rows)
        settings = {"model": str(model)} | task_settings[name]
        checked_runs(directory / name, train, dev, grid, settings, set_options.get("resume", True))
    before = read_json(directory / _SCORES) if (directory / _SCORES).exists() else {}
    tasks: dict[str, dict] = {}
    for name in names:
        train, dev, more_dev = _read(name, data, skip_bad_rows)
        settings = (
            task_settings[name] | set_options | {"grid": grid, "more_dev": more_dev, "say": say}
        )
        set_summary = finetune_set(model, train, dev, directory / name, **settings)
        tasks[name] = _build_task_entry(name, set_summary)
        if tasks[name]["best"] != before.get("tasks", {}).get(name, {}).get("best"):
            write_glue_tests(name, directory / name, data, directory / "test", say)
        summary = {"average": _average(tasks), "tasks": tasks, "skipped": skipped}
        write_json(directory / _SCORES, summary)
        write_glue_page([directory], directory / "report.html")
    return summary


def _find_tasks(data):
    folders = {name: local_path(data) / TASKS[name].folder for name in SETTINGS}
    task_names = [
        name
        for name, folder in folders.items()
        if folder.is_dir() and all(has_glue(name, folder, split) for split in ("train", "dev"))
    ]
    if not task_names:
        names = ", ".join(folder.name for folder in folders.values())
        raise InputError(
            f"{data} contains no GLUE task with a training and a validation set. Pass the folder "
            f"of {names}."
        )
    return task_names


def _read(name, data, skip_bad_rows):
    more_dev = read_more_mnli(data, skip_bad_rows) if name == "mnli" else None
    return *(read_glue(name, data, split, skip_bad_rows) for split in ("train", "dev")), more_dev


def _build_task_entry(name, set_summary):
    """Builds a task's entry for `scores.json` from the result of `finetune_set`."""
    group, official = set_summary["groups"][0], TASKS[name].metrics
    first = next(iter(group["runs"].values()))
    metrics = [key for key in _METRICS.get(name, official) if key in first]
    reported_metrics = [*metrics, *(key for key in first if key.startswith("diagnostic/"))]
    runs = {path: _average_scores(run, metrics) for path, run in group["runs"].items()}
    baselines = {
        baseline: _average_scores(
            first, [f"{baseline}/{key}" for key in metrics if key in official]
        )
        for baseline in BASELINES
        if f"{baseline}/{metrics[0]}" in first
    }
    return {
        "score": spread_of([*runs.values()]),
        "metrics": {key: group["scores"][key] for key in reported_metrics},
        "runs": runs,
        "best": set_summary["best"],
        "baselines": baselines,
    }


def _average_scores(scores, names):
    return statistics.fmean(scores[name] for name in names)


def _average(tasks):
    by_seed = zip(*(task["runs"].values() for task in tasks.values()), strict=True)
    return spread_of([statistics.fmean(scores) for scores in by_seed])


# === Test sets ===


def write_glue_tests(
    task: str,
    run: str | Path,
    data: str | Path,
    output_directory: str | Path | None = None,
    say: Callable[[str], Any] = lambda text: None,
) -> list[Path]:
    """Predicts the test sets of a GLUE task and writes the files that the benchmark's server takes.

    A file has the columns `index` and `prediction`. A prediction is 0 or 1 (CoLA, SST-2, MRPC, QQP,
    WNLI), the name of a class (RTE, QNLI, MNLI, AX), or a number from 0 to 5 (STS-B). For MNLI, the
    files are `MNLI-m.tsv`, `MNLI-mm.tsv` and `AX.tsv`, the diagnostic set; for the other tasks, the
    file is named after the task, such as `CoLA.tsv`.

    Args:
        task: `"cola"`, `"sst2"`, `"mrpc"`, ...
        run: directory of a run, or of a set of runs, on the task.
        data: see `read_glue`. Test sets that are missing are skipped.
        output_directory: directory to write. Default: `test` in the directory of the run. Files
            that are newer than the scores of the run are kept.
        say: function that is called with the name of each file.

    Returns:
        The paths of the files.

    Raises:
        InputError: the task is unknown, a row is invalid, or the run is on another task.

    Example:
        from keras_bert_impl.finetuning import write_glue_tests
        write_glue_tests("mrpc", "run", "glue")  # writes run/test/MRPC.tsv
    """
    check("task", task, Annotated[str, OneOf(*SETTINGS)])
    run = local_path(run)
    directory = run / "test" if output_directory is None else local_path(output_directory)
    tests = _TESTS.get(task, {TASKS[task].folder: (task, "test")})
    sources = {
        directory / f"{name}.tsv": find_glue(*test, data)
        for name, test in tests.items()
        if has_glue(test[0], data, test[1])
    }
    model = None
    for path, source in sources.items():
        if path.exists() and _is_newer(path, run / _SCORES):
            continue
        say(f"predicting {path}")
        model = model or load_tuned(run)
        directory.mkdir(parents=True, exist_ok=True)
        layout = Layout(TASKS[task].text, TASKS[task].pair, allow_empty=True)
        rows = [(text, _read_index(row)) for text, row in read_rows(source, layout)]
        if not rows:
            raise InputError(f"{source} has no rows.")
        answers = task_of_model(model).predictions(model, [text for text, _ in rows])
        predicted = [(row, *answer) for (_, row), answer in zip(rows, answers, strict=True)]
        with table_writer(path) as write:
            write(as_submitted(task, predicted))
    return [*sources]


def _is_newer(path, reference):
    return reference.exists() and path.stat().st_mtime_ns > reference.stat().st_mtime_ns


def is_glue_test(task: str, path: str | Path) -> bool:
    """Returns whether a `.tsv` file has the columns of a GLUE task's test set."""
    columns = table_columns(path) if suffix_of(path) == ".tsv" else []
    texts = {TASKS[task].text, TASKS[task].pair or TASKS[task].text}
    return columns[:1] in _INDEX and texts <= {*columns} and TASKS[task].label not in columns


def as_submitted(task: str, predicted: Iterable[Predicted]) -> list[Predicted]:
    """Converts rows and predictions of a test set to the columns that GLUE's server takes."""
    values = {label: value for value, label in (TASKS[task].labels or {}).items()}
    return [
        (_read_index(row), {"prediction": _convert_prediction(task, answer, values)}, cells)
        for row, answer, cells in predicted
    ]


def _read_index(row):
    """Returns the index of a row, which is its first cell."""
    return {"index": next(iter(row.values()))}


def _convert_prediction(task, answer, values):
    """Converts a prediction to GLUE's file format; similarity scores are clipped to [0, 5]."""
    if values and answer.get("label") in values:
        return values[answer["label"]]
    if values or len(answer.get("values", ())) != 1:
        raise InputError(f"the model was not fine-tuned on {task}: it predicts {answer}.")
    return f"{min(max(answer['values'][0], 0.0), 5.0):.3f}"
