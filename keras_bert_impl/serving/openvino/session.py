"""Inference with OpenVINO."""

from pathlib import Path

import numpy as np
import openvino

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.serving.network.proof import as_inputs


class Session:
    """Runs an exported OpenVINO model on the CPU."""

    def __init__(self, path: str | Path, config: EncoderConfig, precision: str = "f32") -> None:
        core = openvino.Core()
        model = core.read_model(path)
        # After compilation, an output also has the names of the tensors it was made from.
        self._names = [output.get_any_name() for output in model.outputs]
        if precision == "bf16" and "BF16" not in core.get_property(
            "CPU", "OPTIMIZATION_CAPABILITIES"
        ):
            raise InputError("this processor does not compute in bfloat16; use precision fp32.")
        # By default OpenVINO computes in bfloat16 where the processor can.
        hint = {"INFERENCE_PRECISION_HINT": precision}
        self._model = core.compile_model(model, "CPU", hint)
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        """Returns the float32 outputs by name, from int features of an encoder."""
        outputs = self._model(as_inputs(features, self._config))
        return {name: outputs[index].copy() for index, name in enumerate(self._names)}
