"""Matrices and their products in 8 bits, by ONNX Runtime's own tools."""

import contextlib
import logging

import onnx
from onnxruntime import quantization

from keras_bert_impl.serving.network.proof import as_inputs

# With 8 bits the sums of two products overflow on x86 processors without VNNI; with 7 they cannot.
_WEIGHTS = {"weight_type": quantization.QuantType.QInt8, "per_channel": True, "reduce_range": True}
# Fused operators have no shape inference: the tools are told what comes out of them.
_FLOAT = {"DefaultTensorType": onnx.TensorProto.FLOAT}


def quantize(proto, path, large, batches=None, config=None):
    """Writes a float32 model with matrices in int8, each column with a scale of its own.

    Args:
        proto: `onnx.ModelProto`.
        path: `Path` of the file to write.
        large: bool. Whether weights go to a file beside it.
        batches: list of features, from which the scales of activations are taken, for a model of
            the operators of the standard. None: they are taken from what is computed, anew for each
            tensor (dynamic quantization).
        config: `EncoderConfig` of the model, beside `batches`.
    """
    with _only_errors():
        if batches is None:
            quantization.quantize_dynamic(
                proto, path, use_external_data_format=large, extra_options=_FLOAT, **_WEIGHTS
            )
            return
        quantization.quantize_static(
            proto,
            path,
            _Reader(batches, config),
            op_types_to_quantize=["MatMul"],
            activation_type=quantization.QuantType.QUInt8,
            use_external_data_format=large,
            extra_options=_FLOAT | {"MatMulConstBOnly": True},
            **_WEIGHTS,
        )


class _Reader(quantization.CalibrationDataReader):
    """What the tool asks for one batch after the other."""

    def __init__(self, batches, config):
        self._batches = iter(batches)
        self._config = config

    def get_next(self):
        batch = next(self._batches, None)
        return None if batch is None else as_inputs(batch, self._config)


@contextlib.contextmanager
def _only_errors():
    """The tools log advice that does not apply to graphs that come from here."""
    log = logging.getLogger()
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
