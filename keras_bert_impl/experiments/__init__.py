"""Sets of fine-tuning runs that answer a question: cross-validation and benchmarks."""

from keras_bert_impl.lazy import lazy_names

_HOMES = {
    "cross_validate": "cross_validation",
    "finetune_glue": "glue",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
