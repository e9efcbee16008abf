"""Models as ONNX files."""

import functools

import onnx

from keras_bert_impl.serving.network.export import Format, export_network
from keras_bert_impl.serving.network.networks import encoder_of, network_of, weights_of
from keras_bert_impl.serving.onnx.graph import Graph

_LARGE = 2**31 - 2**24  # bytes; a file of protocol buffers holds 2 GiB, graph and names included


def export_onnx(model, directory, precision="fp32", fused=True, **how):
    """Writes `model.onnx` and, beside it, the tokenizer and `config.json` as in a model directory.

    The file is checked by `onnx.checker` and run in ONNX Runtime beside the model.

    Args:
        model: as of `write_graph`.
        directory: str or `Path`. Written aside and renamed.
        precision: `"fp32"`; `"fp16"`; or `"int8"`: weights of dense layers and embeddings in 8
            bits, and products of them too. With `calibration` operators are those of the standard;
            without, the scales of activations are taken from what is computed.
        fused: bool. Whether with operators of ONNX Runtime, as of `write_graph`.
        **how: `texts`, `calibration`, `measure`, `max_drop`: as of `export_network`, which says
            what is returned and raised.

    Example:
        export_onnx(TextClassifier.from_pretrained("path/to/model"), "served")
    """
    onnx_format = Format("ONNX", functools.partial(write, fused=fused), _session)
    return export_network(model, directory, onnx_format, precision, **how)


def write_graph(model, dtype="float32", fused=True):
    """An ONNX graph of the network of a model; inputs, int64, and outputs as of `Network`.

    Args:
        model: as of `network_of`.
        dtype: `"float32"`, or `"float16"` for weights and all but sums, which are in float32.
        fused: bool. Whether with operators of ONNX Runtime; else with those of the standard, for
            other runtimes.

    Returns:
        `onnx.ModelProto`.

    Raises:
        InputError: a model of another kind, or with an adapter.
    """
    network = network_of(model)
    graph = Graph(weights_of(model), dtype, fused)
    network.write(graph)
    return graph.model()


def write(model, directory, precision, batches, fused):
    """Writes `model.onnx`, and checks it; as `Format.write`, with `fused` as of `write_graph`."""
    path = directory / "model.onnx"
    dtype = "float16" if precision == "fp16" else "float32"
    proto = write_graph(model, dtype, fused and batches is None)
    if precision == "int8":
        from keras_bert_impl.serving.onnx.quantization import quantize

        quantize(proto, path, _is_large(proto), batches, encoder_of(model).config)
    else:
        save(proto, path)
    onnx.checker.check_model(str(path), full_check=True)


def save(proto, path):
    """Writes a graph; where a file cannot hold its weights, they go to a second one beside it.

    Args:
        proto: `onnx.ModelProto`.
        path: `Path` of the file.
    """
    large = _is_large(proto)
    onnx.save_model(proto, path, save_as_external_data=large, location=f"{path.name}_data")


def _is_large(proto):
    return sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > _LARGE


def _session(directory, config):
    from keras_bert_impl.serving.onnx.session import Session

    return Session(directory / "model.onnx", config)
