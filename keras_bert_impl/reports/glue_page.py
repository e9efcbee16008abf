"""The page about a run of the GLUE benchmark."""

from pathlib import Path

from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Section
from keras_bert_impl.reports.sections.scores import score_name

_SPREAD = ("mean", "std", "min", "max")


def write_glue_page(directory: str | Path) -> Path:
    """Writes `report.html` in a directory of `finetune_glue` from its `scores.json`."""
    directory = local_path(directory)
    found = dict(read_json(directory / "scores.json"))
    tasks, average = found["tasks"], found["average"]
    count = len(tasks) + len(found["skipped"])
    tiles = [("average", _shown(average["mean"])), ("tasks", f"{len(tasks)} of {count}")]
    lead = f"mean of the seeds, saved in {page.escape(directory.resolve().name)}"
    sections = [_scores(tasks, average, found["skipped"]), _metrics(tasks), _runs(tasks)]
    path = directory / "report.html"
    page.save_page(path, page.page("GLUE", lead, sections, tiles))
    return path


def _scores(tasks, average, skipped):
    baselines = list(dict.fromkeys(key for one in tasks.values() for key in one["baselines"]))
    rows = [
        [name, *_cells(one["score"]), *(_shown(one["baselines"].get(key)) for key in baselines)]
        for name, one in tasks.items()
    ]
    rows.append(["average", *_cells(average), *[""] * len(baselines)])
    html = page.table(["task", *_SPREAD, *baselines], rows)
    if skipped:
        html += page.paragraph(f"Without data, and not in the average: {', '.join(skipped)}.")
    means = [one["score"]["mean"] for one in tasks.values()]
    drawing = charts.bars("glue", "Score of each task", [*tasks], means, "")
    return Section("Scores", html + page.charts([drawing]), [drawing])


def _metrics(tasks):
    rows = [
        [name, score_name(metric), *_cells(spread)]
        for name, one in tasks.items()
        for metric, spread in one["metrics"].items()
    ]
    return Section("Metrics", page.table(["task", "metric", *_SPREAD], rows, first="cell"))


def _runs(tasks):
    rows = [
        [name, path.removeprefix("runs/"), page.score(score), "best" if path == one["best"] else ""]
        for name, one in tasks.items()
        for path, score in one["runs"].items()
    ]
    return Section("Runs", page.table(["task", "run", "score", ""], rows, first="cell"))


def _cells(spread):
    return [_shown(spread[key]) for key in _SPREAD]


def _shown(value):
    return page.Digits(page.NO_INTERVAL) if value is None else page.score(value)
