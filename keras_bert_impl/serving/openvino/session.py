"""Inference with OpenVINO."""

from pathlib import Path

import numpy as np
import openvino

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.serving.network.proof import as_inputs

# Otherwise OpenVINO computes in bfloat16, with 8 significant bits, on processors that support it.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


class Session:
    """Runs an exported OpenVINO model on the CPU.

    Args:
        path: path of the `.xml` file.
        config: that of the exported model.
    """

    def __init__(self, path: str | Path, config: EncoderConfig) -> None:
        core = openvino.Core()
        model = core.read_model(path)
        # After compilation, an output also has the names of the tensors it was made from.
        self._names = [output.get_any_name() for output in model.outputs]
        self._model = core.compile_model(model, "CPU", _EXACT)
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        """Returns the float32 outputs by name, from int features of an encoder."""
        outputs = self._model(as_inputs(features, self._config))
        return {name: outputs[index].copy() for index, name in enumerate(self._names)}
