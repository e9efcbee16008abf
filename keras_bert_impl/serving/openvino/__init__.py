"""Export to OpenVINO, for Intel processors."""

from keras_bert_impl.lazy import lazy_names

_HOMES = {"export_openvino": "export"}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
