"""Inference with LiteRT."""

from ai_edge_litert.interpreter import Interpreter

from keras_bert_impl.serving.network.proof import as_inputs


class Session:
    """Runs an exported LiteRT model on the CPU.

    Args:
        path: path of the file.
        config: `EncoderConfig` of the exported model.
    """

    def __init__(self, path, config):
        self._interpreter = Interpreter(str(path))
        self._run = self._interpreter.get_signature_runner()
        self._config = config

    def __call__(self, features):
        """Returns the outputs, a dict of name to float32 array.

        Args:
            features: dict of int arrays or tensors, the features of an encoder.
        """
        return self._run(**as_inputs(features, self._config, "int32"))
