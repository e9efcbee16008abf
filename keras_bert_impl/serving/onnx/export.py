"""Export to ONNX."""

import functools
from pathlib import Path

import keras
import onnx

from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.networks import encoder_of, network_of, weights_of
from keras_bert_impl.serving.onnx.graph import Graph

_USE = """\
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
print([one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()])
"""
_LARGE = 2**31 - 2**24  # bytes; a protocol buffer file holds 2 GiB, including graph and names


def export_onnx(
    model: keras.Model,
    directory: str | Path,
    precision: str = "fp32",
    fused: bool = True,
    **how,
) -> Report:
    """Writes `model.onnx`, with the tokenizer and `config.json` as in a model directory."""
    onnx_format = Format("ONNX", functools.partial(write, fused=fused), _session, _USE)
    return export_network(model, directory, onnx_format, precision, **how)


def write_graph(model: keras.Model, dtype: str = "float32", fused: bool = True) -> onnx.ModelProto:
    """Returns the ONNX graph of a model's network; see `Network` for outputs and inputs, int64."""
    network = network_of(model)
    graph = Graph(weights_of(model), dtype, fused)
    network.write(graph)
    return graph.model()


def write(
    model: keras.Model, directory: Path, precision: str, batches: list[dict] | None, fused: bool
) -> None:
    """Writes and checks `model.onnx`; see `Format.write`, and `write_graph` for `fused`."""
    path = directory / "model.onnx"
    dtype = "float16" if precision == "fp16" else "float32"
    proto = write_graph(model, dtype, fused and batches is None)
    if precision == "int8":
        from keras_bert_impl.serving.onnx.quantization import quantize

        quantize(proto, path, _is_large(proto), batches, encoder_of(model).config)
    else:
        save(proto, path)
    onnx.checker.check_model(str(path), full_check=True)


def save(proto: onnx.ModelProto, path: Path) -> None:
    """Writes a graph; weights that exceed the file limit go to a second file next to it."""
    large = _is_large(proto)
    onnx.save_model(proto, path, save_as_external_data=large, location=f"{path.name}_data")


def _is_large(proto):
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > _LARGE


def _session(directory, config):
    from keras_bert_impl.serving.onnx.session import Session

    return Session(directory / "model.onnx", config)
