"""Inference with ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnxruntime

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.serving.network.proof import as_inputs


class Session:
    """Runs an exported ONNX model in ONNX Runtime on the CPU."""

    def __init__(self, model: str | Path | bytes, config: EncoderConfig) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        # Spinning threads would take CPU time from other processes.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = model if isinstance(model, bytes) else str(model)
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(model, options, providers=providers)
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        """Returns the float32 outputs by name, from int features of an encoder."""
        outputs = self._session.run(None, as_inputs(features, self._config))
        return dict(zip((output.name for output in self._session.get_outputs()), outputs))
