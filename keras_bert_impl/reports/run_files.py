"""Reads the files of a run for a report."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.checkpoints.interop import OWN_SETTINGS
from keras_bert_impl.data.prediction_files import are_for, read_predictions_table
from keras_bert_impl.reports.attribution import attribute
from keras_bert_impl.reports.page import Html, details, paragraph, shaded_words, table
from keras_bert_impl.runs.run import load_tuned
from keras_bert_impl.tasks.base.task_model import MODEL_CLASS
from keras_bert_impl.training.runs.reports import read_metrics
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path, without_folders
from keras_bert_impl.utils.io.reading import file_within, read_json
from keras_bert_impl.utils.io.run_files import read_run_file, read_scores

MOST_EXPLAINED = 5  # number of errors with attributions
_NO_LIMIT = 1 << 60


class Run(NamedTuple):
    """Contents of a run directory. The attributes of missing or damaged files are empty.

    Attributes:
        name: name of the directory.
        settings: contents of `recipe.yaml`.
        changed: settings that differ from their defaults; None if unknown.
        data: contents of `data.json`.
        metrics: lines of `metrics.jsonl`.
        scores: contents of `scores.json`.
        model_class: class name of the model in `model/`; None if unknown.
        problems: a message for each damaged file.
    """

    name: str
    path: Path
    settings: dict[str, Any]
    changed: dict[str, Any] | None
    data: dict[str, Any]
    metrics: list[dict[str, Any]]
    scores: dict[str, Any]
    model_class: str | None
    problems: list[str]

    @property
    def records(self) -> str | None:
        """Folder of the training records of a pre-training run; None for other runs."""
        entry = self.data.get("records")
        source = entry.get("source") if isinstance(entry, dict) else None
        return source if isinstance(source, str) else None


def read_run(path: str | Path) -> Run:
    path = local_path(path)
    if not path.is_dir():
        raise InputError(
            f"{path} is not a directory. Pass a run directory: the --out of a training command."
        )
    problems: list[str] = []

    def read(reader, name, default):
        try:
            file = file_within(path, name)
            return reader(file) if file.exists() else default
        except InputError as error:
            problems.append(str(error).replace(f"{path}/", ""))
            return default

    # A set of runs has no settings, and other entries than scores.
    scores_reader = read_scores if (path / "recipe.yaml").exists() else read_run_file
    data = dict(read(read_run_file, "data.json", {}))
    changed = data.get("changed_settings")
    run = Run(
        path.resolve().name,
        path,
        dict(read(read_run_file, "recipe.yaml", {})),
        changed if isinstance(changed, dict) else None,
        data,
        read(lambda file: read_metrics(file, _NO_LIMIT), "metrics.jsonl", []),
        dict(read(scores_reader, "scores.json", {})),
        read(_read_model_class, "model/config.json", None),
        problems,
    )
    if not (run.settings or run.metrics or run.scores):
        reason = "has no recipe.yaml, metrics.jsonl or scores.json: it is not a run directory."
        raise InputError(f"{path}/{problems[0]}" if problems else f"{path} {reason}")
    return run


def runs_of(path: str | Path) -> list[Path]:
    """Returns the directories of the runs in a set of runs or a cross-validation.

    The best run of a set comes first. If `path` is a single run, returns `[path]`.
    """
    path = local_path(path)
    folds = _find_runs(path, "folds/*/recipe.yaml")
    if folds:
        return sorted(folds, key=lambda run: (len(run.name), run.name))  # by number
    runs = sorted(_find_runs(path, "runs/*/recipe.yaml"))
    file = file_within(path, "scores.json")
    if runs and file.is_file():  # Without scores, the set is not finished.
        best = read_run_file(file, _read_best_run)
        runs.sort(key=lambda run: run != path / best)
    return runs or [path]


def _read_best_run(scores):
    # The runs of a learning curve are not ranked.
    return "" if "curves" in scores else scores.text("best")


def _find_runs(path, pattern):
    recipes = [recipe.relative_to(path).as_posix() for recipe in path.glob(pattern)]
    return [file_within(path, name).parent for name in recipes]


def _read_model_class(path):
    return read_json(path).mapping(OWN_SETTINGS).text(MODEL_CLASS, None)


class Subject(NamedTuple):
    """A run and, optionally, the examples and the model of the run.

    Attributes:
        examples: labeled examples to score the model on; None if not given.
        model: the model of the run; None if not given.
    """

    run: Run
    examples: Any = None
    model: Any = None

    def scored_as(self, noun: str) -> str:
        """Returns a text such as "14 examples of tickets.csv"."""
        return f"{len(self.examples):,} {noun} of {without_folders(self.examples.source)}"


def stored_predictions(subject: Subject) -> Path | None:
    """Returns the `predictions.tsv` of a run if its rows are the subject's examples, in order.

    Returns None if the file is missing, damaged, or for other examples. If the file is damaged,
    adds a message to `run.problems`.
    """
    run, path = subject.run, subject.run.path / "predictions.tsv"
    if not path.exists():
        return None
    # The file contains only the beginnings of long texts, the fingerprint is of whole texts.
    scored = run.data.get("dev")
    is_known = isinstance(scored, dict) and "sha256" in scored
    if is_known and scored["sha256"] != subject.examples.fingerprint:
        return None
    try:
        return path if are_for(path, subject.examples) else None
    except InputError as error:
        run.problems.append(str(error))
        return None


def read_predictions(subject: Subject) -> tuple[list[str], list[list[str]]] | None:
    """Reads the predictions of a run for the subject's examples; see `stored_predictions`.

    Returns:
        (column names, rows) without the index column.
    """
    path = stored_predictions(subject)
    return None if path is None else read_predictions_table(path)


def with_predictions(subject: Subject) -> Subject:
    """Adds the model of the run to a subject if the run's predictions are for other examples."""
    run = subject.run
    if subject.model is not None or stored_predictions(subject) is not None:
        return subject
    if not (run.path / "model").is_dir():
        if not (run.path / "predictions.tsv").exists() or run.problems:
            return subject
        raise InputError(
            f"the predictions in {run.path} are not for the examples of {subject.examples.source}, "
            f"and {run.path} has no model to predict these examples. Pass the examples that the "
            "run was scored on."
        )
    return subject._replace(model=load_tuned(run.path))


def explanation(model: Any, text: Any, target: Any = None) -> Html:
    """Returns the words of a text, shaded by integrated gradients, and the highest scores."""
    try:
        attribution = attribute(model, text, target)
    except InputError as error:
        return Html(paragraph(f"no attribution: {error}"))
    largest = sorted(attribution.words, key=lambda word: -abs(word.score))[:8]
    rows = [[word.text[:80], float(np.round(word.score, 4))] for word in largest]
    numbers = table(["word", "contribution to the log-odds"], rows)
    return Html(
        shaded_words(attribution.words)
        + details(f"largest contributions to {attribution.target}", numbers)
    )
