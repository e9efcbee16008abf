"""`write_report` for one run, and `write_comparison` for several runs."""

import contextlib
import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.cards import write_card
from keras_bert_impl.data.scores.statistics import paired_difference
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Section, escape, number
from keras_bert_impl.reports.run_files import (
    Run,
    Subject,
    read_predictions,
    read_run,
    runs_of,
    with_predictions,
)
from keras_bert_impl.reports.sections import classification, overview, pretraining
from keras_bert_impl.reports.sections.scores import (
    how,
    resampled,
    score_name,
    without_repeated_loss,
)
from keras_bert_impl.runs.run import load_tuned
from keras_bert_impl.tasks.registry import model_class_named, task_of_examples, task_of_model
from keras_bert_impl.training.runs.run_directory import ENVIRONMENT
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.paths import local_path, without_folders

FILE = "report.html"
_LOG = logging.getLogger(__name__)
_MOST_TILES = 4


def write_report(
    run_directory: str | Path,
    model: Any = None,
    examples: Any = None,
    path: str | Path | None = None,
    pictures: str | Path | None = None,
) -> Path:
    """Writes a self-contained HTML report about a run.

    Settings, data and learning curves are read from the files of the run. If `examples` are given,
    the report also shows confidence intervals, results by class, calibration and errors. If `model`
    is also given, the report explains errors by attributions.

    Args:
        run_directory: directory of a run of `finetune` or `pretrain`.
        model: the run's model, from `load_tuned`.
        examples: labeled examples. The predictions are read from the run if the run was scored on
            these examples, in the same order; otherwise, the model predicts them. For a `MaskedLM`,
            a list of texts to mask.
        path: file to write. Default: `report.html` in the run.
        pictures: folder for the charts as SVG files, and as PNG files if matplotlib is installed.

    Returns:
        The path of the page.

    Raises:
        InputError: the directory is not a run, or the run's predictions are for other examples and
            the run has no model.

    Example:
        write_report("run", load_tuned("run"))
    """
    subject = Subject(read_run(run_directory), examples, model)
    sections = report_sections(subject)
    path = local_path(run_directory) / FILE if path is None else local_path(path)
    run = subject.run
    page.save_page(path, page.page(_make_title(run), _make_lead(run), sections, _make_tiles(run)))
    if pictures is not None:
        save_pictures(sections, pictures)
    return path


def report_sections(subject: Subject) -> list[Section]:
    run, middle = subject.run, []
    if subject.examples is not None:
        middle = _build_task_sections(subject)
    if not any(section.title == "Scores" for section in middle) and run.scores:
        middle = [_render_plain_scores(run), *middle]
    sections = [
        overview.verdict_section(run),
        *middle[:1],
        overview.curves_section([run]),
        *middle[1:],
        overview.data_section(run),
        pretraining.records_section(run),
        overview.settings_section(run) if run.settings else None,
        overview.use_section(run),
    ]
    if run.problems:
        text = "".join(page.paragraph(problem) for problem in run.problems)
        sections.append(Section("Unreadable files", text))
    return [section for section in sections if section is not None]


def save_pictures(sections: list[Section], folder: str | Path) -> list[Path]:
    """Writes the charts of sections as SVG and PNG files; returns their paths."""
    folder = local_path(folder)
    drawings = [drawing for section in sections for drawing in section.drawings]
    has_png = importlib.util.find_spec("matplotlib") is not None
    if not has_png:
        _LOG.warning("the charts are only SVG files; PNG files require matplotlib")
    with replace_directory(folder) as temporary:
        for drawing in drawings:
            drawing.save_svg(temporary / f"{drawing.name}.svg")
            if has_png:
                drawing.save_png(temporary / f"{drawing.name}.png")
    suffixes = ("svg", "png") if has_png else ("svg",)
    return [folder / f"{drawing.name}.{suffix}" for drawing in drawings for suffix in suffixes]


def _build_task_sections(subject):
    module = report_of(subject.examples, subject.model)
    if module is None:
        return []
    if isinstance(subject.examples, LabeledExamples):
        subject = with_predictions(subject)
    return module.sections(subject)


def report_of(examples: Any, model: Any = None) -> ModuleType | None:
    """Returns the report module of the examples' task, or None if the task has no report.

    If the examples are a list of texts, returns the report module of the model's task.
    """
    report = None
    if isinstance(examples, LabeledExamples):
        report = task_of_examples(examples).report
    elif model is not None and (task := task_of_model(model)).example_class is None:
        report = task.report
    return importlib.import_module(report) if report else None


def _render_plain_scores(run):
    scores = {key: v for key, v in run.scores.items() if isinstance(v, (int, float))}
    scores = without_repeated_loss(scores)
    rows = [[score_name(key), page.score(value)] for key, value in scores.items()]
    return Section("Scores", page.table(["score", "value"], rows))


def _make_tiles(run: Run):
    scores = {k: v for k, v in run.scores.items() if isinstance(v, (int, float))}
    scores = {k: v for k, v in scores.items() if not overview.is_of_baseline(k)}
    scores = without_repeated_loss(scores)
    tiles = [(score_name(k), page.score(v)) for k, v in list(scores.items())[:_MOST_TILES]]
    counts = {"validation examples": overview.count_of(run, "dev")}
    counts["steps"] = max((int(line["step"]) for line in run.metrics), default=None)
    return [*tiles, *((name, number(n)) for name, n in counts.items() if n is not None)]


def _make_title(run):
    """Returns a title such as "Text classification: tickets.csv"."""
    if run.records is not None:
        return f"Pre-training: {without_folders(run.records)}"
    kind = model_class_named(run.model_class)
    task = kind.pipeline_tag.replace("-", " ").capitalize() if kind else "Fine-tuning"
    if overview.is_regression(run):
        task = task.replace("classification", "regression")
    return f"{task}: {overview.source_of(run, 'train') or run.name}"


def _make_lead(run):
    model = run.settings.get("model")
    model = without_folders(model) if isinstance(model, str) else None
    parts = [run.model_class, f"from {model}" if model else None, f"saved in {run.name}"]
    return " · ".join(escape(part) for part in parts if part)


# === Several runs ===


def write_comparison(
    run_directories: Sequence[str | Path],
    path: str | Path,
    examples: Any = None,
    pictures: str | Path | None = None,
) -> Path:
    """Writes a report that compares runs: different settings, scores and learning curves.

    With `examples`, scores have confidence intervals, and each run is compared with the first run
    by a paired bootstrap.

    Args:
        run_directories: two or more runs, or the directory of a set of runs. Each run is compared
            with the first run. For a set, each run is compared with the best run.
        path: file to write.
        examples: labeled examples of the runs' task. The predictions are read from the runs if all
            runs were scored on these examples; otherwise, the models of the runs predict them.
        pictures: folder for the charts; see `write_report`.

    Returns:
        The path of the page.

    Raises:
        InputError: there are fewer than two runs, a directory is not a run, or a run has neither
            predictions for the examples nor a model.

    Example:
        from keras_bert_impl.reports import write_comparison
        write_comparison(["run", "run"], "comparison.html")
    """
    if isinstance(run_directories, (str, Path)):
        run_directories = [run_directories]
    directories = [run for directory in run_directories for run in runs_of(directory)]
    if len(directories) < 2:
        raise InputError("a comparison requires at least two run directories, or a set of runs.")
    runs = _ensure_different_names([read_run(directory) for directory in directories])
    sections = [_compare_scores(runs)]
    if examples is not None:
        sections.append(_compare_in_pairs(runs, examples))
    sections += [overview.curves_section(runs), _compare_settings(runs)]
    sections = [section for section in sections if section is not None]
    lead = escape(" · ".join(run.name for run in runs))
    page.save_page(path, page.page(f"Comparison of {len(runs)} runs", lead, sections))
    if pictures is not None:
        save_pictures(sections, pictures)
    return local_path(path)


def _ensure_different_names(runs: list[Run]) -> list[Run]:
    names = [run.name for run in runs]
    if len(set(names)) == len(names):
        return runs
    return [run._replace(name=f"{number}: {run.name}") for number, run in enumerate(runs, 1)]


def _compare_scores(runs):
    names: dict[str, None] = {}
    for run in runs:
        names |= dict.fromkeys(k for k, v in run.scores.items() if isinstance(v, (int, float)))
    rows = [
        [score_name(name), *(_format_score(run.scores.get(name)) for run in runs)] for name in names
    ]
    return Section("Scores", page.table(["score", *(run.name for run in runs)], rows))


def _format_score(value):
    return page.score(value) if isinstance(value, (int, float)) else ""


def _compare_settings(runs):
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    settings = [[key, *(str(run.settings.get(key, "")) for run in runs)] for key in keys]
    inputs = dict.fromkeys(name for run in runs for name in _describe_inputs(run))
    settings += [[name, *(_describe_inputs(run).get(name, "") for run in runs)] for name in inputs]
    rows = [[key, *values] for key, *values in settings if len(set(values)) > 1]
    if not rows:
        return Section("Settings", page.paragraph("All settings are the same."))
    headings = ["setting", *(run.name for run in runs)]
    return Section("Settings that differ", page.table(headings, rows))


def _describe_inputs(run):
    """Describes the data, the models and the software of a run by name, from its `data.json`."""
    described = {}
    for name, content in run.data.items():
        if not isinstance(content, dict):
            continue
        if name == ENVIRONMENT:
            described |= {key: str(value) for key, value in content.items()}
        elif "sha256" in content:
            count = content.get("examples")
            rows = f", {count:,} examples" if isinstance(count, int) else ""
            source = without_folders(str(content.get("source")))
            described[f"{name} (content)"] = f"{source}{rows}, sha256 {content['sha256'][:8]}"
    return described


def _collect_outcomes(runs, examples):
    """Returns the predictions of each run, with the classes in the order of the first run.

    Predictions are read from the runs if all runs were scored on these examples. Otherwise, the
    models of the runs predict the examples.
    """
    if report_of(examples) is classification:
        stored = [read_predictions(Subject(run, examples)) for run in runs]
        if all(stored) and len({tuple(headings) for headings, _ in stored}) == 1:
            return [classification.outcome(Subject(run, examples)) for run in runs]
    task, first, outcomes = task_of_examples(examples), None, []
    for run in runs:
        if not (run.path / "model").is_dir():
            raise InputError(
                f"{run.path} has neither predictions for {examples.source} nor a model. Finish the "
                "run, or leave out the examples to compare only scores and learning curves."
            )
        model = load_tuned(run.path)
        first = first or model
        outcomes.append(task.outcome(model, examples, first))
    return outcomes


def _compute_intervals(outcome):
    if np.shape(outcome.labels) == np.shape(outcome.predictions):
        return classification.scores_of(outcome)
    # The predictions are counts or scores of each example, not labels.
    return [
        resampled(name, metric, outcome.labels, outcome.predictions)
        for name, metric in outcome.metrics.items()
    ]


def _compare_in_pairs(runs, examples):
    outcomes = _collect_outcomes(runs, examples)
    first, by_run = outcomes[0], [_compute_intervals(outcome) for outcome in outcomes]
    rows = []
    for scores in zip(*by_run, strict=True):
        for run, outcome, score in zip(runs, outcomes, scores):
            value = page.score(score.interval.value), page.bounds(score.interval)
            row = [score_name(score.name), run.name, *value]
            if outcome is first:
                rows.append([*row, "", "", ""])
                continue
            columns = first.labels, first.column(score.name), outcome.column(score.name)
            change = paired_difference(first.metrics[score.name], *columns)
            difference = page.score(change.interval.value), page.bounds(change.interval)
            rows.append([*row, *difference, page.p_value(change.p)])
    interval = "95% confidence interval"
    headings = ["score", "run", "value", interval, f"difference from {runs[0].name}", interval, "p"]
    caption = f"{len(examples):,} examples of {without_folders(examples.source)}"
    html = page.table(headings, rows, caption, first="cell") + page.paragraph(
        f"{how([run_score for scores in by_run for run_score in scores])} Differences "
        "are tested by a paired bootstrap, which scores both runs on the same resamples; p-values "
        "are two-sided. With many comparisons, some p-values are small by chance."
    )
    return Section("On the same examples", html)


# === Finished runs ===


def describe_run(run_directory: str | Path, model: Any = None, examples: Any = None) -> None:
    """Writes the `report.html` of a run, and a model card with data, settings and scores."""
    run = local_path(run_directory)
    if model is not None:
        with _warn_on_failure(run, "card"):
            write_card(model, run / "model", run / "model", run=run)
    with _warn_on_failure(run, "report"):
        write_report(run, examples=examples)


def is_described(run_directory: str | Path) -> bool:
    """Returns whether a run has a report.

    A finished run has no report if the process was killed before the report was written.
    """
    return (local_path(run_directory) / FILE).is_file()


@contextlib.contextmanager
def _warn_on_failure(run, document):
    try:
        yield
    except Exception as error:  # The run must succeed even if the report fails.
        _LOG.warning("%s has no complete %s: %s: %s", run, document, type(error).__name__, error)
