"""What a finished run writes about itself."""

import contextlib
import logging
from pathlib import Path
from typing import Any

from keras_bert_impl.cards import write_card
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.reports.run_report import FILE, write_report

_LOG = logging.getLogger(__name__)


def describe_run(run_directory: str | Path, model: Any = None, examples: Any = None) -> None:
    """Writes `report.html` of a run, and the card of its model with data, settings and scores."""
    run = local_path(run_directory)
    if model is not None:
        with _only_warning(run, "card"):
            write_card(model, run / "model", run / "model", run=run)
    with _only_warning(run, "report"):
        write_report(run, examples=examples)


def is_described(run_directory: str | Path) -> bool:
    """Returns whether a finished run has its report; it has none if the process was killed before
    that was written."""
    return (local_path(run_directory) / FILE).is_file()


@contextlib.contextmanager
def _only_warning(run, what):
    try:
        yield
    except Exception as error:  # of any kind: a page is not worth a run
        _LOG.warning("%s has no complete %s: %s: %s", run, what, type(error).__name__, error)
