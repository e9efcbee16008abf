"""HTML pages with the GLUE scores of one or several models, from `finetune_glue`."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Digits, Section
from keras_bert_impl.reports.sections.scores import score_name
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import read_json

_SPREAD = ("mean", "std", "min", "max")


def is_benchmark(directory: str | Path) -> bool:
    path = local_path(directory) / "scores.json"
    try:
        return path.is_file() and {"average", "tasks"} <= read_json(path).keys()
    except InputError:
        return False  # The file is damaged, as the report of the run explains.


def write_glue_page(directories: Sequence[str | Path], path: str | Path) -> Path:
    """Writes an HTML page with the GLUE scores of a model, or a comparison of several models.

    A comparison shows the difference from the first model.

    Args:
        directories: output directories of `finetune_glue`, one per model.
    """
    scores: dict[str, Any] = {}
    for directory in map(local_path, directories):
        if not is_benchmark(directory):
            raise InputError(f"{directory} contains no scores of `finetune --task glue`.")
        name = directory.resolve().name
        name = name if name not in scores else f"{len(scores) + 1}: {name}"
        scores[name] = dict(read_json(directory / "scores.json"))
    first = next(iter(scores.values()))
    if len(scores) > 1:
        title, sections, tiles = f"GLUE: {len(scores)} models", [_render_comparison(scores)], []
    else:
        title, tasks = "GLUE", first["tasks"]
        sections = [_render_scores(first), _render_metrics(tasks), _render_runs(tasks)]
        count = len(tasks) + len(first["skipped"])
        tiles = [
            ("average", _format_score(first["average"]["mean"])),
            ("tasks", f"{len(tasks)} of {count}"),
        ]
    lead = page.escape(" · ".join(scores))
    page.save_page(path, page.page(title, lead, sections, tiles))
    return local_path(path)


def _render_scores(scores):
    tasks, average, skipped = scores["tasks"], scores["average"], scores["skipped"]
    baselines = list(dict.fromkeys(key for task in tasks.values() for key in task["baselines"]))
    rows = [
        [
            name,
            *_format_spread(task["score"]),
            *(_format_score(task["baselines"].get(key)) for key in baselines),
        ]
        for name, task in tasks.items()
    ]
    rows.append(["average", *_format_spread(average), *[_format_score(None)] * len(baselines)])
    html = page.table(["task", *_SPREAD, *baselines], rows)
    if skipped:
        html += page.paragraph(
            f"The average does not include tasks without data: {', '.join(skipped)}."
        )
    return Section("Scores", html)


def _render_metrics(tasks):
    rows = [
        [name, score_name(metric), *_format_spread(spread)]
        for name, task in tasks.items()
        for metric, spread in task["metrics"].items()
    ]
    return Section("Metrics", page.table(["task", "metric", *_SPREAD], rows, first="cell"))


def _render_runs(tasks):
    rows = [
        [
            name,
            path.removeprefix("runs/"),
            page.score(score),
            "best" if path == task["best"] else "",
        ]
        for name, task in tasks.items()
        for path, score in task["runs"].items()
    ]
    return Section("Runs", page.table(["task", "run", "score", ""], rows, first="cell"))


def _render_comparison(scores):
    models = [model["tasks"] for model in scores.values()]
    tasks = [name for name in models[0] if all(name in model for model in models)]
    if not tasks:
        raise InputError(f"{', '.join(scores)} have no task in common.")
    rows = []
    for name in tasks:
        spreads = [model[name]["score"] for model in models]
        rows.append([name, *map(_format_mean_and_std, spreads), *_format_differences(spreads)])
    averages = [
        {"mean": statistics.fmean(model[name]["score"]["mean"] for name in tasks), "std": None}
        for model in models
    ]
    rows.append(["average", *map(_format_mean_and_std, averages), *_format_differences(averages)])
    first, *other_names = scores
    headings = ["task", *scores, *(f"{name} minus {first}" for name in other_names)]
    note = (
        "Mean and standard deviation over the seeds. The table contains only tasks that all models "
        "were scored on."
    )
    return Section("Scores", page.table(headings, rows) + page.paragraph(note))


def _format_mean_and_std(spread):
    mean, std = spread["mean"], spread["std"]
    return Digits(f"{mean:.4f}" if std is None else f"{mean:.4f} ± {std:.4f}")


def _format_differences(spreads):
    return [Digits(f"{spread['mean'] - spreads[0]['mean']:+.4f}") for spread in spreads[1:]]


def _format_spread(spread):
    return [_format_score(spread[key]) for key in _SPREAD]


def _format_score(value):
    return Digits(page.NO_INTERVAL) if value is None else page.score(value)
