"""Self-contained HTML pages: the report of a run, a comparison of runs, and a model's attention."""

from keras_bert_impl.utils.lazy import lazy_names

_HOMES = {
    "look": "look_page",
    "write_comparison": "run_report",
    "write_report": "run_report",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
