"""8-bit matrix products in OpenVINO, with scales computed from texts, by NNCF."""

import contextlib
import io
import os

import openvino

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.serving.network.proof import as_inputs

os.environ.setdefault("NNCF_CI", "1")  # NNCF then reports its use to nobody
with contextlib.redirect_stdout(io.StringIO()):  # it announces itself
    import nncf


def quantized(model: openvino.Model, batches: list[dict], config: EncoderConfig) -> openvino.Model:
    """Quantizes the weights and activations of matrix products to 8 bits."""
    data = nncf.Dataset([as_inputs(batch, config) for batch in batches])
    without_smoothing = nncf.AdvancedSmoothQuantParameters(matmul=-1)
    with contextlib.redirect_stdout(io.StringIO()):  # its progress
        return nncf.quantize(
            model,
            data,
            subset_size=len(batches),
            model_type=nncf.ModelType.TRANSFORMER,
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                smooth_quant_alphas=without_smoothing
            ),
        )
