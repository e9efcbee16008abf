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
    found: dict[str, Any] = {}
    for directory in map(local_path, directories):
        if not is_benchmark(directory):
            raise InputError(f"{directory} contains no scores of `finetune --task glue`.")
        name = directory.resolve().name
        name = name if name not in found else f"{len(found) + 1}: {name}"
        found[name] = dict(read_json(directory / "scores.json"))
    first = next(iter(found.values()))
    if len(found) > 1:
        title, sections, tiles = f"GLUE: {len(found)} models", [_comparison(found)], []
    else:
        title, sections = "GLUE", [_scores(first), _metrics(first["tasks"]), _runs(first["tasks"])]
        count = len(first["tasks"]) + len(first["skipped"])
        tiles = [
            ("average", _shown(first["average"]["mean"])),
            ("tasks", f"{len(first['tasks'])} of {count}"),
        ]
    lead = page.escape(" · ".join(found))
    page.save_page(path, page.page(title, lead, sections, tiles))
    return local_path(path)


def _scores(found):
    tasks, average, skipped = found["tasks"], found["average"], found["skipped"]
    baselines = list(dict.fromkeys(key for one in tasks.values() for key in one["baselines"]))
    rows = [
        [name, *_cells(one["score"]), *(_shown(one["baselines"].get(key)) for key in baselines)]
        for name, one in tasks.items()
    ]
    rows.append(["average", *_cells(average), *[_shown(None)] * len(baselines)])
    html = page.table(["task", *_SPREAD, *baselines], rows)
    if skipped:
        html += page.paragraph(
            f"The average does not include tasks without data: {', '.join(skipped)}."
        )
    return Section("Scores", html)


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


def _comparison(found):
    of_all = [one["tasks"] for one in found.values()]
    tasks = [name for name in of_all[0] if all(name in one for one in of_all)]
    if not tasks:
        raise InputError(f"{', '.join(found)} have no task in common.")
    rows = []
    for name in tasks:
        spreads = [one[name]["score"] for one in of_all]
        rows.append([name, *map(_mean_and_std, spreads), *_differences(spreads)])
    averages = [
        {"mean": statistics.fmean(one[name]["score"]["mean"] for name in tasks), "std": None}
        for one in of_all
    ]
    rows.append(["average", *map(_mean_and_std, averages), *_differences(averages)])
    first, *others = found
    headings = ["task", *found, *(f"{name} minus {first}" for name in others)]
    note = (
        "Mean and standard deviation over the seeds. The table contains only tasks that all models "
        "were scored on."
    )
    return Section("Scores", page.table(headings, rows) + page.paragraph(note))


def _mean_and_std(spread):
    mean, std = spread["mean"], spread["std"]
    return Digits(f"{mean:.4f}" if std is None else f"{mean:.4f} ± {std:.4f}")


def _differences(spreads):
    return [Digits(f"{one['mean'] - spreads[0]['mean']:+.4f}") for one in spreads[1:]]


def _cells(spread):
    return [_shown(spread[key]) for key in _SPREAD]


def _shown(value):
    return Digits(page.NO_INTERVAL) if value is None else page.score(value)
