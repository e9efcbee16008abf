"""`write_report`: the page of one run."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_bert_impl.io.paths import local_path
from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Section
from keras_bert_impl.reports.run_files import Run, read_run
from keras_bert_impl.reports.sections import overview, pretraining
from keras_bert_impl.reports.subject import Subject
from keras_bert_impl.reports.text import escape, number
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tasks.registry import task_of_examples, task_of_model

FILE = "report.html"
_MOST_TILES = 4


def write_report(
    run_directory: str | Path,
    model: Any = None,
    examples: Any = None,
    path: str | Path | None = None,
    pictures: str | Path | None = None,
) -> Path:
    """Writes a page about a run that needs no other file and no network.

    Every section stands there only if its data does: settings, data and learning curves come from
    the files of the run; scores with intervals, classes, calibration and errors need `examples`;
    attributions of errors also need `model`.

    Args:
        run_directory: of `finetune` or `pretrain`.
        model: the model of the run, as `load_tuned` returns it.
        examples: the labeled examples of the run's scores. Its predictions are read from the run,
            or computed by `model` if there are none. For a `MaskedLM`, a list of texts to mask.
        path: the page. Default: `report.html` in the run.
        pictures: folder for each picture as SVG, and as PNG if matplotlib is installed.

    Returns:
        The path of the page.

    Raises:
        InputError: the directory is not that of a run, or the examples do not fit it.

    Example:
        write_report("run", load_tuned("run"))
    """
    subject = Subject(read_run(run_directory), examples, model)
    sections = report_sections(subject)
    path = local_path(run_directory) / FILE if path is None else local_path(path)
    title = f"{_kind(subject.run)}: {subject.run.name}"
    page.save_page(path, page.page(title, _lead(subject.run), sections, _tiles(subject.run)))
    if pictures is not None:
        save_pictures(sections, pictures)
    return path


def report_sections(subject: Subject) -> list[Section]:
    """Returns the sections of a report."""
    run, middle = subject.run, []
    if subject.examples is not None:
        middle = _task_sections(subject)
    if not any(section.title == "Scores" for section in middle) and run.scores:
        middle = [_plain_scores(run), *middle]
    found = [
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
        found.append(Section("What could not be read", text))
    return [section for section in found if section is not None]


def save_pictures(sections: list[Section], folder: str | Path) -> list[Path]:
    """Writes the pictures of sections as SVG and PNG files; returns their paths."""
    folder = local_path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawings = [drawing for section in sections for drawing in section.drawings]
    for drawing in drawings:
        drawing.save_svg(folder / f"{drawing.name}.svg")
    for drawing in drawings:
        drawing.save_png(folder / f"{drawing.name}.png")
    return [folder / f"{d.name}.{suffix}" for d in drawings for suffix in ("svg", "png")]


def _task_sections(subject):
    """Returns the sections of the task of the examples."""
    module = report_of(subject.examples, subject.model)
    return module.sections(subject) if module else []


def report_of(examples: Any, model: Any = None) -> ModuleType | None:
    """Returns the module with the `sections` of a task, of labeled examples or of a list of texts."""
    report = None
    if isinstance(examples, LabeledExamples):
        report = task_of_examples(examples).report
    elif model is not None and (task := task_of_model(model)).example_class is None:
        report = task.report
    return importlib.import_module(report) if report else None


def _plain_scores(run):
    known = {key: v for key, v in run.scores.items() if isinstance(v, (int, float))}
    rows = [[key.replace("_", " "), value] for key, value in known.items()]
    return Section("Scores", page.table(["score", "value"], rows))


def _tiles(run: Run):
    scores = {k: v for k, v in run.scores.items() if isinstance(v, (int, float))}
    tiles = [(k.replace("_", " "), number(v)) for k, v in list(scores.items())[:_MOST_TILES]]
    steps = [line["step"] for line in run.metrics]
    return [*tiles, ("steps", number(int(max(steps))))] if steps else tiles


def _kind(run):
    return "Pre-training run" if "records" in run.settings else "Fine-tuning run"


def _lead(run):
    parts = [run.model_class, run.settings.get("model"), str(run.path)]
    return " · ".join(escape(part) for part in parts if part)
