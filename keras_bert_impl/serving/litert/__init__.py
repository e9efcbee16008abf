"""Export to LiteRT, for mobile and edge devices."""

from keras_bert_impl.lazy import lazy_names

_HOMES = {"export_litert": "export"}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
