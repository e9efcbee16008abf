"""Experiments with several runs: cross-validation, GLUE, learning curves and ablations."""

from keras_bert_impl.lazy import lazy_names

_HOMES = {
    "Variant": "questions",
    "QUESTIONS": "questions",
    "ablate": "ablations",
    "cross_validate": "cross_validation",
    "finetune_glue": "glue",
    "learning_curve": "curves",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
