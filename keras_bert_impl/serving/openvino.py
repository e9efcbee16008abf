"""Exports models to OpenVINO, for Intel processors, from ONNX graphs with standard operators."""

import contextlib
import errno
import functools
import io
import os
import tempfile
from pathlib import Path

import keras
import numpy as np
import openvino
from onnx import TensorProto, helper, numpy_helper

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.serving.graphs.networks import encoder_of
from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.proof import as_inputs
from keras_bert_impl.serving.onnx import save, write_graph
from keras_bert_impl.utils.errors import InputError

_USE = """\
import openvino
precision = {{"INFERENCE_PRECISION_HINT": "{}"}}
model = openvino.Core().compile_model("model.xml", "CPU", precision)
print(model.inputs, model.outputs)
"""
_FILE = "model.xml"
_FEWEST = 1024  # minimum number of values of a compressed weight
# Operator -> (index of the weight input, axis of the scales). Embeddings have a scale per token
# vector; matrices have a scale per column.
_WEIGHTS = {"Gather": (0, 0), "MatMul": (1, 1)}


def export_openvino(
    model: keras.Model, directory: str | Path, precision: str = "fp32", **how
) -> Report:
    hint = "bf16" if precision == "bf16" else "f32"
    openvino_format = Format(
        "OpenVINO",
        _write,
        functools.partial(_load_session, hint=hint),
        _USE.format(hint),
        ("fp32", "bf16", "fp16", "int8"),
    )
    return export_network(model, directory, openvino_format, precision, **how)


def _write(model, directory, precision, batches):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.onnx"
        graph = write_graph(model, fused=False)
        if precision == "int8" and batches is None:
            _quantize_weights(graph)
        save(graph, path)
        read = openvino.Core().read_model(path)
        if batches is not None:
            read = _calibrate(read, batches, encoder_of(model).config)
        # OpenVINO converts weights to float16, except where float32 is better.
        try:
            openvino.save_model(read, directory / _FILE, compress_to_fp16=precision == "fp16")
        except RuntimeError as error:
            if "iostream" in str(error):  # A full disk raises only this error.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise


def _load_session(directory, config, hint):
    return Session(directory / _FILE, config, hint)


# === 8 bits ===


def _quantize_weights(proto):
    """Converts the embeddings and matrices to int8, with a scale per vector or column."""
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    nodes = []
    for node in proto.graph.node:
        index, axis = _WEIGHTS.get(node.op_type, (None, None))
        name = node.input[index] if index is not None else None
        if name in tensors and _is_large(tensors[name]):  # Shared weights are converted once.
            weight = numpy_helper.to_array(tensors.pop(name))
            parts = [f"{name}/{part}" for part in ("int8", "scale", "zero")]
            for part, array in zip(parts, _quantize(weight, axis)):
                tensors[part] = numpy_helper.from_array(array, part)
            nodes.append(helper.make_node("DequantizeLinear", parts, [name], axis=axis))
        nodes.append(node)
    for field, content in ((proto.graph.node, nodes), (proto.graph.initializer, tensors.values())):
        content = list(content)
        del field[:]
        field.extend(content)


def _is_large(tensor):
    is_matrix = tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2
    return is_matrix and np.prod(tensor.dims) >= _FEWEST


def _quantize(weight, axis):
    """Returns (int8 values, float32 scales, int8 zero points) of a matrix."""
    scale = np.abs(weight).max(axis=1 - axis) / 127
    scale = np.where(scale == 0, 1, scale).astype("float32")
    numbers = np.round(weight / np.expand_dims(scale, 1 - axis)).astype("int8")
    return numbers, scale, np.zeros(len(scale), "int8")


def _calibrate(model, batches, config):
    """Quantizes weights and activations of matrix products to int8.

    The scales are computed from the calibration batches.
    """
    os.environ.setdefault("NNCF_CI", "1")  # disables NNCF's telemetry
    with contextlib.redirect_stdout(io.StringIO()):  # suppresses NNCF's banner
        import nncf

    data = nncf.Dataset([as_inputs(batch, config) for batch in batches])
    without_smoothing = nncf.AdvancedSmoothQuantParameters(matmul=-1)
    with contextlib.redirect_stdout(io.StringIO()):  # NNCF's progress
        return nncf.quantize(
            model,
            data,
            subset_size=len(batches),
            model_type=nncf.ModelType.TRANSFORMER,
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                smooth_quant_alphas=without_smoothing
            ),
        )


# === Inference ===


class Session:
    def __init__(self, path: str | Path, config: EncoderConfig, precision: str = "f32") -> None:
        core = openvino.Core()
        model = core.read_model(path)
        # After compilation, an output may also have the names of inputs.
        self._names = [output.get_any_name() for output in model.outputs]
        if precision == "bf16" and "BF16" not in core.get_property(
            "CPU", "OPTIMIZATION_CAPABILITIES"
        ):
            raise InputError("this processor does not compute in bfloat16; use precision fp32.")
        # By default, OpenVINO computes in bfloat16 if the processor supports it.
        hint = {"INFERENCE_PRECISION_HINT": precision}
        self._model = core.compile_model(model, "CPU", hint)
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        outputs = self._model(as_inputs(features, self._config))
        return {name: outputs[index].copy() for index, name in enumerate(self._names)}
