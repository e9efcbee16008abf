"""Export to LiteRT with TensorFlow's converter."""

from pathlib import Path

import keras
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.serving.litert.graph import Graph
from keras_bert_impl.serving.litert.session import Session
from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.networks import encoder_of, input_names, network_of, weights_of

_LARGE = 2**31 - 2**24  # bytes; a FlatBuffer holds 2 GiB, including graph and names
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
    litert_format = Format("LiteRT", _write, _session, _USE)
    return export_network(model, directory, litert_format, precision, **how)


def _write(model, directory, precision, batches):
    if batches is not None:
        raise InputError(
            "LiteRT computes the scales of activations at run time: leave out calibration texts."
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
        network_of(model).write(graph)
        return graph.outputs

    shape = [None] * network_of(model).rank
    names = input_names(encoder_of(model).config)
    module.network = tf.function(network, autograph=False)
    function = module.network.get_concrete_function(
        **{name: tf.TensorSpec(shape, tf.int32, name) for name in names}
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if precision != "fp32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    (directory / _FILE).write_bytes(converter.convert())


def _session(directory, config):
    return Session(directory / _FILE, config)
