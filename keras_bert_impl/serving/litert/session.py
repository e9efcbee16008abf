"""Inference with LiteRT."""

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.serving.network.proof import as_inputs


class Session:
    """Runs an exported LiteRT model on the CPU."""

    def __init__(self, path: str | Path, config: EncoderConfig) -> None:
        self._interpreter = Interpreter(str(path))
        self._run = self._interpreter.get_signature_runner()
        self._config = config

    def __call__(self, features: dict) -> dict[str, np.ndarray]:
        """Returns the float32 outputs by name, from int features of an encoder."""
        return self._run(**as_inputs(features, self._config, "int32"))
