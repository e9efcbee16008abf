"""Models in LiteRT."""

from ai_edge_litert.interpreter import Interpreter

from keras_bert_impl.serving.network.proof import as_inputs


class Session:
    """A written model in LiteRT, on the CPU.

    Args:
        path: path of the file.
        config: `EncoderConfig` of the model that it was written from.
    """

    def __init__(self, path, config):
        self._interpreter = Interpreter(str(path))
        self._run = self._interpreter.get_signature_runner()
        self._config = config

    def __call__(self, features):
        """dict of name to float32 array: the outputs.

        Args:
            features: dict of int arrays or tensors, as an encoder takes them.
        """
        return self._run(**as_inputs(features, self._config, "int32"))
