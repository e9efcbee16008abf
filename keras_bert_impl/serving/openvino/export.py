"""Export to OpenVINO, from ONNX graphs with only standard operators."""

import errno
import functools
import os
import tempfile
from pathlib import Path

import keras
import openvino

from keras_bert_impl.serving.network.export import Format, Report, export_network
from keras_bert_impl.serving.network.networks import encoder_of
from keras_bert_impl.serving.onnx import export as onnx_export
from keras_bert_impl.serving.openvino.compression import compress
from keras_bert_impl.serving.openvino.session import Session

_USE = """\
import openvino
precision = {{"INFERENCE_PRECISION_HINT": "{}"}}
model = openvino.Core().compile_model("model.xml", "CPU", precision)
print(model.inputs, model.outputs)
"""
_FILE = "model.xml"


def export_openvino(
    model: keras.Model, directory: str | Path, precision: str = "fp32", **how
) -> Report:
    """Writes `model.xml` and `model.bin`, with the tokenizer and `config.json`."""
    hint = "bf16" if precision == "bf16" else "f32"
    openvino_format = Format(
        "OpenVINO",
        _write,
        functools.partial(_session, hint=hint),
        _USE.format(hint),
        ("fp32", "bf16", "fp16", "int8"),
    )
    return export_network(model, directory, openvino_format, precision, **how)


def _write(model, directory, precision, batches):
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.onnx"
        graph = onnx_export.write_graph(model, fused=False)
        if precision == "int8" and batches is None:
            compress(graph)
        onnx_export.save(graph, path)
        read = openvino.Core().read_model(path)
        if batches is not None:
            from keras_bert_impl.serving.openvino.calibration import quantized

            read = quantized(read, batches, encoder_of(model).config)
        # OpenVINO halves the weights itself, since it knows where float32 is better.
        try:
            openvino.save_model(read, directory / _FILE, compress_to_fp16=precision == "fp16")
        except RuntimeError as error:
            if "iostream" in str(error):  # the only sign of a full disk
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise


def _session(directory, config, hint):
    return Session(directory / _FILE, config, hint)
