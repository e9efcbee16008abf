"""8-bit quantization of weights and matrix products with ONNX Runtime's tools."""

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnxruntime import quantization

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.serving.network.proof import as_inputs

# On x86 processors without VNNI, sums of two 8-bit products overflow; 7 bits are safe.
_WEIGHTS = {"weight_type": quantization.QuantType.QInt8, "per_channel": True, "reduce_range": True}
# Fused operators have no shape inference, so the tools need their output type.
_FLOAT = {"DefaultTensorType": onnx.TensorProto.FLOAT}


def quantize(
    proto: onnx.ModelProto,
    path: Path,
    large: bool,
    batches: list[dict] | None,
    config: EncoderConfig,
) -> None:
    """Writes a float32 model with int8 matrices, with a separate scale per column."""
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
    """Feeds calibration batches to the quantization tool."""

    def __init__(self, batches: Iterable[dict], config: EncoderConfig) -> None:
        self._batches = iter(batches)
        self._config = config

    def get_next(self) -> dict | None:
        batch = next(self._batches, None)
        return None if batch is None else as_inputs(batch, self._config)


@contextlib.contextmanager
def _only_errors():
    """Suppresses advice of the tools that does not apply to these graphs."""
    log = logging.getLogger()
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
