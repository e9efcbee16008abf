"""Exports models to formats that run without this package."""

from keras_bert_impl.utils.lazy import lazy_names

_HOMES = {
    "TOLERANCE": "check",
    "export_saved_model": "saved_model",
    "export_version": "saved_model",
    "largest_difference": "check",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
