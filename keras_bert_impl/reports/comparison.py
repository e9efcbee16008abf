"""`write_comparison`: several runs on one page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Section
from keras_bert_impl.reports.run_files import Run, read_run, runs_of
from keras_bert_impl.reports.run_report import report_of, save_pictures
from keras_bert_impl.reports.sections import classification, overview
from keras_bert_impl.reports.statistics import bootstrap, paired_difference
from keras_bert_impl.reports.subject import Subject
from keras_bert_impl.reports.text import escape


def write_comparison(
    run_directories: Sequence[str | Path],
    path: str | Path,
    examples: Any = None,
    pictures: str | Path | None = None,
) -> Path:
    """Writes a page that compares runs: settings that differ, scores, and curves.

    With `examples`, scores have bootstrap intervals, and each run is compared with the first one
    by a paired bootstrap of the difference.

    Args:
        run_directories: two or more runs, or a set of runs, which stands for all of its runs; the
            first is the one that others are compared with, of a set the best.
        path: the page.
        examples: labeled texts (`Examples`) that all runs have predictions for.
        pictures: folder for the pictures; see `write_report`.

    Returns:
        The path of the page.

    Raises:
        InputError: fewer than two runs, a directory is not that of a run, or the examples do not
            fit one.

    Example:
        from keras_bert_impl.reports import write_comparison
        write_comparison(["run", "run"], "comparison.html")
    """
    if isinstance(run_directories, (str, Path)):
        run_directories = [run_directories]
    directories = [run for directory in run_directories for run in runs_of(directory)]
    if len(directories) < 2:
        raise InputError("a comparison needs at least two run directories, or a set of runs.")
    if examples is not None and report_of(examples) is not classification:
        raise InputError(
            f"runs are compared on labeled texts, not on {type(examples).__name__}: leave out the "
            "examples to compare scores and curves."
        )
    runs = _with_different_names([read_run(directory) for directory in directories])
    sections = [_scores(runs)]
    if examples is not None:
        sections.append(_paired(runs, examples))
    sections += [overview.curves_section(runs), _settings(runs)]
    sections = [section for section in sections if section is not None]
    lead = escape(" · ".join(run.name for run in runs))
    page.save_page(path, page.page(f"Comparison of {len(runs)} runs", lead, sections))
    if pictures is not None:
        save_pictures(sections, pictures)
    return local_path(path)


def _with_different_names(runs: list[Run]) -> list[Run]:
    names = [run.name for run in runs]
    if len(set(names)) == len(names):
        return runs
    return [run._replace(name=f"{number}: {run.path}") for number, run in enumerate(runs, 1)]


def _scores(runs):
    names: dict[str, None] = {}
    for run in runs:
        names |= dict.fromkeys(k for k, v in run.scores.items() if isinstance(v, (int, float)))
    rows = [[name.replace("_", " "), *(run.scores.get(name, "") for run in runs)] for name in names]
    return Section("Scores", page.table(["score", *(run.name for run in runs)], rows))


def _settings(runs):
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    rows = []
    for key in keys:
        values = [str(run.settings.get(key, "")) for run in runs]
        if len(set(values)) > 1:
            rows.append([key, *values])
    if not rows:
        return Section("Settings", page.paragraph("All settings are the same."))
    headings = ["setting", *(run.name for run in runs)]
    return Section("Settings that differ", page.table(headings, rows))


def _paired(runs, examples):
    outcomes = [classification.outcome(Subject(run, examples)) for run in runs]
    for run, outcome in zip(runs, outcomes):
        if outcome is None:
            raise InputError(f"{run.path} has no predictions.tsv to compare on the examples.")
    rows, (first, *_) = [], outcomes
    for name, metric in first.metrics.items():
        for run, outcome in zip(runs, outcomes):
            row = [name, run.name, bootstrap(metric, outcome.labels, outcome.predictions)]
            if outcome is first:
                rows.append([*row, "", ""])
                continue
            columns = first.labels, first.predictions, outcome.predictions
            found = paired_difference(metric, *columns)
            rows.append([*row, page.interval(found.interval), f"{found.p:.3f}"])
    headings = ["score", "run", "value", f"difference from {runs[0].name}", "p"]
    caption = f"{len(examples):,} examples of {examples.source}"
    html = page.table(headings, rows, caption, first="cell") + page.paragraph(
        f"{classification.HOW} Differences: paired bootstrap, the same resamples for both runs; p "
        "is two-sided. Many comparisons find some small p by chance."
    )
    return Section("On the same examples", html)
