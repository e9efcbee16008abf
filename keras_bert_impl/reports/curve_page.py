"""HTML page with the results of `learning_curve`: scores by size of the training set."""

from pathlib import Path
from typing import Any

from keras_bert_impl.reports import page
from keras_bert_impl.reports.charts import SERIES, Axis, Series, curves
from keras_bert_impl.reports.page import Section
from keras_bert_impl.reports.sections.scores import score_name


def write_curve_page(found: dict[str, Any], path: str | Path) -> None:
    """Writes an HTML page with a chart and a table of the scores by size of the training set.

    Args:
        found: return value of `learning_curve`.
        path: file to write.
    """
    name = score_name(found["metric"])
    drawn = [_series(name, points, color) for (name, points), color in _colored(found["curves"])]
    axes = Axis("size", is_logarithmic=True), Axis(name)
    chart = curves("learning-curve", f"{name} by size of the training set", drawn, *axes)
    note = "Mean score over the seeds, with a 95% interval by Student's t-distribution."
    rows = [
        [
            curve,
            point["size"],
            point["examples"],
            page.score(point["value"]),
            page.bounds_of_runs(point),
        ]
        for curve, points in found["curves"].items()
        for point in points
    ]
    headings = ["", "size", "examples", name, "interval"]
    sections = [
        Section("Curves", page.charts([chart]) + page.paragraph(note), [chart]),
        Section("Scores", page.table(headings, rows, first="cell")),
    ]
    page.save_page(path, page.page("Learning curve", page.escape(name), sections))


def _colored(found):
    return zip(found.items(), (SERIES[n % len(SERIES)] for n in range(len(found))))


def _series(name, points, color):
    bounds = [(point["low"], point["high"]) for point in points if point["low"] is not None]
    sizes, means = ([point[key] for point in points] for key in ("size", "value"))
    return Series(name, sizes, means, color, bounds=bounds)
