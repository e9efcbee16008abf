"""HTML report of an ablation study, with a table for each question."""

from pathlib import Path
from typing import Any

from keras_bert_impl.reports import page
from keras_bert_impl.reports.page import Digits, Section
from keras_bert_impl.reports.sections.scores import score_name

_NOTE = (
    "Each score is the mean over the seeds, with a 95% interval by Student's t-distribution. Each "
    "variant is compared with the variant in the first row, by the differences between runs with "
    "the same seed. If the interval of a difference contains 0, the difference may be due to "
    "chance."
)


def write_ablation_page(summary: dict[str, Any], path: str | Path) -> None:
    """Writes the HTML report of `summary`, which `ablate` returns."""
    score = score_name(summary["metric"])
    headings = ["variant", score, "95% interval", "difference", "95% interval", "seeds"]
    sections = [
        Section(question, page.table(headings, map(_cells, rows)) + page.paragraph(_NOTE))
        for question, rows in summary["questions"].items()
    ]
    page.save_page(path, page.page("Ablations", page.escape(score), sections))


def _cells(row):
    cells = [row["name"]]
    for interval, sign in ((row["score"], ""), (row["difference"], "+")):
        cells += [Digits(f"{interval['value']:{sign}.4f}"), page.bounds_of_runs(interval, sign)]
    return [*cells, len(row["runs"])]
