"""Exports models to ONNX, for ONNX Runtime and other runtimes."""

import contextlib
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.serving.graphs.networks import encoder_of, network_of, weights_of
from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.proof import as_inputs

_USE = """\
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
print([one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()])
"""
# Bytes; the limit of a protocol buffer file is 2 GiB, including graph and names.
_LARGE = 2**31 - 2**24


def export_onnx(
    model: keras.Model,
    directory: str | Path,
    precision: str = "fp32",
    fused: bool = True,
    **how,
) -> Report:
    """Writes `model.onnx`, with the tokenizer and `config.json` as in a model directory."""
    onnx_format = Format("ONNX", functools.partial(write, fused=fused), _load_session, _USE)
    return export_network(model, directory, onnx_format, precision, **how)


def write_graph(model: keras.Model, dtype: str = "float32", fused: bool = True) -> onnx.ModelProto:
    """Returns the ONNX graph of a model's network with int64 inputs; see `Network`."""
    network = network_of(model)
    graph = Graph(weights_of(model), dtype, fused)
    network.write(graph)
    return graph.model()


def write(
    model: keras.Model, directory: Path, precision: str, batches: list[dict] | None, fused: bool
) -> None:
    """Writes `model.onnx` and validates the file. For the arguments, see `Format.write`."""
    path = directory / "model.onnx"
    dtype = "float16" if precision == "fp16" else "float32"
    proto = write_graph(model, dtype, fused and batches is None)
    if precision == "int8":
        _quantize(proto, path, batches, encoder_of(model).config, fused)
    else:
        save(proto, path)
    onnx.checker.check_model(str(path), full_check=True)


def save(proto: onnx.ModelProto, path: Path) -> None:
    """Writes a graph. The weights of a large graph are written to a second file."""
    large = _is_large(proto)
    onnx.save_model(proto, path, save_as_external_data=large, location=f"{path.name}_data")


def _is_large(proto):
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > _LARGE


def _load_session(directory, config):
    return Session(directory / "model.onnx", config)


def _quantize(proto, path, batches, config, fused):
    """Quantizes the matrices of a float32 model to int8, with a scale for each column."""
    from onnxruntime import quantization

    # On x86 processors without VNNI, sums of two 8-bit products overflow; 7 bits are safe.
    how = {
        "weight_type": quantization.QuantType.QInt8,
        "per_channel": True,
        "reduce_range": True,
        "use_external_data_format": _is_large(proto),
    }
    # The quantization tool cannot infer the output type of fused operators.
    extra = {"DefaultTensorType": TensorProto.FLOAT}
    with _hide_warnings():
        if batches is None:
            quantization.quantize_dynamic(proto, path, extra_options=extra, **how)
            return
        activations = quantization.QuantType.QUInt8
        if not fused:
            activations = quantization.QuantType.QInt8
            extra |= _FOR_TENSORRT
        quantization.quantize_static(
            proto,
            path,
            _Batches(batches, config),
            op_types_to_quantize=["MatMul"],
            activation_type=activations,
            extra_options=extra,
            **how,
        )


# TensorRT requires zero points of 0, and float weights that the graph quantizes. It computes the
# matrix products of quantized inputs in int8 and the rest in the precision of the engine.
_FOR_TENSORRT = {
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "AddQDQPairToWeight": True,
    "OpTypesToExcludeOutputQuantization": ["MatMul"],
}


class _Batches:
    """A `CalibrationDataReader` for the quantization tool."""

    def __init__(self, batches, config):
        self._inputs = (as_inputs(batch, config) for batch in batches)

    def get_next(self) -> dict | None:
        return next(self._inputs, None)


@contextlib.contextmanager
def _hide_warnings():
    """Suppresses the quantization tool's warnings, which do not apply to these graphs."""
    log = logging.getLogger()
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


class Session:
    def __init__(self, model: str | Path | bytes, config: EncoderConfig) -> None:
        import onnxruntime  # imported here, because the OpenVINO export does not need it

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # only errors
        # Spinning threads take CPU time from other processes.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = model if isinstance(model, bytes) else str(model)
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(model, options, providers=providers)
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        outputs = self._session.run(None, as_inputs(features, self._config))
        return dict(zip((output.name for output in self._session.get_outputs()), outputs))


# === Graphs ===

# first opset with LayerNormalization, supported by ONNX Runtime since 1.12 (2022)
_OPSET, _IR_VERSION = 17, 8
_CONTRIB = "com.microsoft"
_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


class Graph:
    """Builds an ONNX graph. Methods take and return the names of tensors."""

    def __init__(
        self, weights: dict[str, np.ndarray], dtype: str = "float32", fused: bool = False
    ) -> None:
        self.dtype = dtype
        self.fused = fused
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._shapes: list[onnx.ValueInfoProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}  # weights and constants by name
        self._constants: dict[tuple, str] = {}  # value -> name

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "int64") -> str:
        """Adds an input to the graph. Strings in `shape` name dynamic dimensions."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        return name

    def output(self, name: str, tensor: str, shape: Sequence[int | str]) -> None:
        """Marks a tensor as an output of the model, in float32."""
        self._nodes.append(helper.make_node("Cast", [tensor], [name], name, to=TensorProto.FLOAT))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def add(self, op: str, *inputs: Any, num_outputs: int = 1, **attributes) -> str:
        domain, _, op = op.rpartition(".")
        names = [value if isinstance(value, str) else self._add_constant(value) for value in inputs]
        name = f"{op}_{len(self._nodes)}"
        outputs = [name, *(f"{name}_{number}" for number in range(1, num_outputs))]
        node = helper.make_node(op, names, outputs, name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def cast(self, tensor: str, dtype: str) -> str:
        return self.add("Cast", tensor, to=_TYPES[dtype])

    def as_float32(self, tensor: str) -> str:
        return tensor if self.dtype == "float32" else self.cast(tensor, "float32")

    def as_computed(self, tensor: str) -> str:
        """Casts a float32 tensor to the graph's dtype."""
        return tensor if self.dtype == "float32" else self.cast(tensor, self.dtype)

    def declare(self, tensor: str, shape: Sequence[int | str]) -> None:
        """Declares the shape of a tensor whose shape ONNX cannot infer."""
        self._shapes.append(helper.make_tensor_value_info(tensor, _TYPES[self.dtype], shape))

    def has(self, name: str) -> bool:
        return name in self._weights

    def array(self, name: str) -> np.ndarray:
        return self._weights[name]

    def weight(self, *names: str) -> str:
        """Adds a weight in the graph's dtype. Concatenates several weights along the last axis."""
        name = "+".join(names)
        if name not in self._tensors:
            array = np.concatenate([self._weights[name] for name in names], axis=-1)
            self._tensors[name] = numpy_helper.from_array(array.astype(self.dtype), name)
        return name

    def model(self) -> onnx.ModelProto:
        tensors = list(self._tensors.values())
        graph = helper.make_graph(
            self._nodes, "network", self._inputs, self._outputs, tensors, value_info=self._shapes
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        if any(node.domain for node in self._nodes):
            opsets.append(helper.make_opsetid(_CONTRIB, 1))
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="keras_bert_impl"
        )

    def _add_constant(self, value):
        if not isinstance(value, (np.ndarray, np.generic)):
            value = np.array(value, self.dtype if isinstance(value, float) else "int64")
        key = value.dtype.name, value.shape, value.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = name
            self._tensors[name] = numpy_helper.from_array(np.asarray(value), name)
        return self._constants[key]
