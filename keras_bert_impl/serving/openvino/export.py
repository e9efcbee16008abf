"""Models as OpenVINO files, from ONNX graphs of the standard's operators."""

import errno
import os

import openvino

from keras_bert_impl.io.files import temporary_directory
from keras_bert_impl.serving.network.export import Format, export_network
from keras_bert_impl.serving.onnx import export as onnx_export
from keras_bert_impl.serving.openvino.compression import compress

_FILE = "model.xml"


def export_openvino(model, directory, precision="fp32", **how):
    """Writes `model.xml`, `model.bin` and, beside them, the tokenizer and `config.json` as in a
    model directory.

    Inputs, int64, and outputs are those of `Network`, of any batch and length. OpenVINO is
    told to compute in float32; where it is not, it computes in bfloat16 on processors that have it.

    Args:
        model: as of `network_of`.
        directory: str or `Path`. Written aside and renamed.
        precision: `"fp32"`; `"fp16"`: weights in 16 bits; or `"int8"`: weights of dense layers and
            embeddings in 8 bits. With `calibration` embeddings stay in 32 bits, and activations have
            8 by scales that are taken from the texts.
        **how: `texts`, `calibration`, `measure`, `max_drop`: as of `export_network`, which says
            what is returned and raised.

    Example:
        export_openvino(TextClassifier.from_pretrained("path/to/model"), "served")
    """
    openvino_format = Format("OpenVINO", _write, _session)
    return export_network(model, directory, openvino_format, precision, **how)


def _write(model, directory, precision, batches):
    with temporary_directory() as temporary:
        path = temporary / "model.onnx"
        if batches is not None:
            onnx_export.write(model, path.parent, "int8", batches, fused=False)
        else:
            graph = onnx_export.write_graph(model, fused=False)
            if precision == "int8":
                compress(graph)
            onnx_export.save(graph, path)
        read = openvino.Core().read_model(path)
        # Halving the weights is left to OpenVINO, so that it knows where float32 is better.
        try:
            openvino.save_model(read, directory / _FILE, compress_to_fp16=precision == "fp16")
        except RuntimeError as error:
            if "iostream" in str(error):  # all that is said of a disk that takes no more
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise


def _session(directory, config):
    from keras_bert_impl.serving.openvino.session import Session

    return Session(directory / _FILE, config)
