"""Export to LiteRT, for mobile and edge devices, with TensorFlow's converter.

The converter does not support the traced Keras model: operations such as `mask[:, None]` on a
tensor of unknown size would need TensorFlow kernels in LiteRT. Therefore, this module builds the
network from operations that LiteRT supports.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.serving.graphs.networks import (
    Network,
    encoder_of,
    input_names,
    network_of,
    weights_of,
)
from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.proof import as_inputs
from keras_bert_impl.utils.errors import InputError

# Maximum bytes of the weights; a FlatBuffer with graph and names is limited to 2 GiB.
_LARGE = 2**31 - 2**24
_USE = """\
from ai_edge_litert.interpreter import Interpreter
model = Interpreter("model.tflite").get_signature_runner()
print(model.get_input_details(), model.get_output_details())
"""
_FILE = "model.tflite"


def export_litert(
    model: keras.Model, directory: str | Path, precision: str = "fp32", **how
) -> Report:
    """Writes `model.tflite`, with the tokenizer and `config.json` as in a model directory."""
    litert_format = Format("LiteRT", _write, _load_session, _USE)
    return export_network(model, directory, litert_format, precision, **how)


def _write(model, directory, precision, batches):
    network = network_of(model)
    shape = [None] * network.rank
    names = input_names(encoder_of(model).config)
    content = convert(model, network, dict.fromkeys(names, shape), precision, batches)
    (directory / _FILE).write_bytes(content)


def convert(
    model: keras.Model,
    written: Network,
    shapes: dict[str, list],
    precision: str,
    batches: list[dict] | None = None,
) -> bytes:
    """Converts a network to the contents of a LiteRT file.

    Args:
        shapes: dict of input name -> shape.
        precision, batches: see `Format.write`.
    """
    if batches is not None:
        raise InputError(
            "LiteRT does not use calibration texts, because it computes the scales of "
            "activations from each input. Leave out the texts."
        )
    weights = weights_of(model)
    if sum(weight.nbytes for weight in weights.values()) > _LARGE:
        raise InputError("the model is larger than 2 GiB, the limit of a LiteRT file.")
    module = tf.Module()
    module.weights = {
        path: tf.Variable(weight, trainable=False, dtype="float32")
        for path, weight in weights.items()
    }

    def network(**inputs):
        graph = Graph(module.weights, inputs)
        written.write(graph)
        return graph.outputs

    module.network = tf.function(network, autograph=False)
    function = module.network.get_concrete_function(
        **{name: tf.TensorSpec(shape, tf.int32, name) for name, shape in shapes.items()}
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if precision != "fp32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _load_session(directory, config):
    return Session(directory / _FILE, config)


class Session:
    def __init__(self, path: str | Path, config: EncoderConfig) -> None:
        self._interpreter = Interpreter(str(path))
        self._run = self._interpreter.get_signature_runner()
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        return self._run(**as_inputs(features, self._config, "int32"))


# === Network operations in TensorFlow that LiteRT supports without TensorFlow kernels ===

_DTYPES = {"int32": tf.int32, "int64": tf.int32, "float32": tf.float32, "bool": tf.bool}


class Graph:
    """Graph of TensorFlow tensors, with the methods of `serving.onnx.Graph`."""

    dtype = "float32"
    fused = False

    def __init__(self, weights: dict[str, tf.Variable], inputs: dict[str, tf.Tensor]) -> None:
        self.outputs: dict[str, tf.Tensor] = {}
        self._weights = weights
        self._inputs = inputs
        self._read: dict[str, tf.Tensor] = {}

    def input(self, name: str, shape: Sequence[int | str]) -> tf.Tensor:
        return self._inputs[name]

    def output(self, name: str, tensor: tf.Tensor, shape: Sequence[int | str]) -> None:
        self.outputs[name] = tf.identity(tensor)

    def add(self, op: str, *inputs: Any, **attributes) -> tf.Tensor:
        """Returns the result of a standard ONNX operator."""
        return _OPERATORS[op](*map(self._convert_to_tensor, inputs), **attributes)

    def cast(self, tensor: tf.Tensor, dtype: str) -> tf.Tensor:
        """Casts a tensor. Integers always have 32 bits."""
        return tf.cast(tensor, _DTYPES[dtype])

    def as_float32(self, tensor: tf.Tensor) -> tf.Tensor:
        return tensor  # The dtype of the graph is always float32.

    def as_computed(self, tensor: tf.Tensor) -> tf.Tensor:
        return tensor

    def declare(self, tensor: tf.Tensor, shape: Sequence[int | str]) -> None:
        """Does nothing, because TensorFlow infers shapes."""

    def has(self, name: str) -> bool:
        return name in self._weights

    def array(self, name: str) -> np.ndarray:
        with tf.init_scope():
            return self._weights[name].numpy()

    def weight(self, name: str) -> tf.Tensor:
        if name not in self._read:
            self._read[name] = tf.convert_to_tensor(self._weights[name])
        return self._read[name]

    def _convert_to_tensor(self, value):
        if tf.is_tensor(value):
            return value
        array = np.asarray(value)
        return tf.constant(array.astype("float32" if array.dtype.kind == "f" else "int32"))


def _list_numbers(tensor):
    return np.atleast_1d(tf.get_static_value(tensor)).tolist()


def _normalize_layer(inputs, gamma, beta=None, axis=-1, epsilon=1e-5):
    centered = inputs - tf.reduce_mean(inputs, axis, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis, keepdims=True)
    outputs = centered * tf.math.rsqrt(variance + epsilon) * gamma
    return outputs if beta is None else outputs + beta


def _reduce(function):
    def reduce(inputs, axes_tensor=None, axes=None, keepdims=1):
        axes = _list_numbers(axes_tensor) if axes is None else axes
        return function(inputs, axes, keepdims=bool(keepdims))

    return reduce


def _apply_reshape(inputs, shape):
    """Reshapes a tensor as in ONNX, where a size of 0 in a constant shape means unchanged."""
    constant = tf.get_static_value(shape)
    if constant is not None and 0 in constant:
        sizes = tf.shape(inputs)
        shape = tf.stack([size or sizes[axis] for axis, size in enumerate(constant.tolist())])
        outputs = tf.reshape(inputs, shape)
        outputs.set_shape([size or inputs.shape[axis] for axis, size in enumerate(constant)])
        return outputs
    return tf.reshape(inputs, shape)


def _slice(inputs, starts, ends, axes):
    (axis,) = _list_numbers(axes)
    (start,), end = _list_numbers(starts), ends[0]
    return inputs[(slice(None),) * axis + (slice(start, end),)]


def _expand_axes(inputs, axes):
    for axis in _list_numbers(axes):
        inputs = tf.expand_dims(inputs, axis)
    return inputs


_OPERATORS = {
    "Abs": tf.abs,
    "Add": tf.add,
    "And": tf.logical_and,
    "Concat": lambda *inputs, axis: tf.concat(inputs, axis),
    "Cos": tf.cos,
    "CumSum": tf.cumsum,
    "Div": tf.divide,
    "Equal": tf.equal,
    "Erf": tf.math.erf,
    "Gather": lambda inputs, ids, axis=0: tf.gather(inputs, ids, axis=axis),
    "GreaterOrEqual": tf.greater_equal,
    "LayerNormalization": _normalize_layer,
    "LessOrEqual": tf.less_equal,
    "MatMul": tf.matmul,
    "Max": tf.maximum,
    "Mul": tf.multiply,
    "Not": tf.logical_not,
    "Range": tf.range,
    "ReduceL2": _reduce(lambda x, axes, keepdims: tf.sqrt(tf.reduce_sum(x * x, axes, keepdims))),
    "ReduceMax": _reduce(tf.reduce_max),
    "ReduceSum": _reduce(tf.reduce_sum),
    "Relu": tf.nn.relu,
    "Reshape": _apply_reshape,
    "Shape": lambda inputs, start=0, end=None: tf.shape(inputs)[start:end],
    "Sigmoid": tf.sigmoid,
    "Sin": tf.sin,
    "Slice": _slice,
    "Softmax": lambda inputs, axis: tf.nn.softmax(inputs, axis),
    "Sqrt": tf.sqrt,
    "Squeeze": tf.squeeze,
    "Sub": tf.subtract,
    "Sum": lambda *inputs: tf.add_n(inputs),
    "Tanh": tf.tanh,
    "Transpose": lambda inputs, perm: tf.transpose(inputs, perm),
    "Unsqueeze": _expand_axes,
    "Where": tf.where,
}
