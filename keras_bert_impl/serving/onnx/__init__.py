"""Export to ONNX, for ONNX Runtime and other runtimes."""

from keras_bert_impl.lazy import lazy_names

_HOMES = {
    "export_onnx": "export",
    "write_graph": "export",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
