"""Self-contained HTML pages: the report of a run, runs side by side, and a look into a model."""

from keras_bert_impl.reports.comparison import write_comparison
from keras_bert_impl.reports.run_report import write_report

__all__ = ["write_comparison", "write_report"]
