"""Experiments with several runs: cross-validation and GLUE."""

from keras_bert_impl.utils.lazy import lazy_names

_HOMES = {
    "cross_validate": "cross_validation",
    "finetune_glue": "glue",
    "write_glue_tests": "glue",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
