"""Models in OpenVINO."""

import openvino

from keras_bert_impl.serving.network.proof import as_inputs

# Without it processors that have it compute in bfloat16, of 8 bits.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


class Session:
    """A written model in OpenVINO, on the CPU.

    Args:
        path: path of the `.xml` file.
        config: `EncoderConfig` of the model that it was written from.
    """

    def __init__(self, path, config):
        core = openvino.Core()
        model = core.read_model(path)
        # Compiled, an output also has the names of what it was made from.
        self._names = [output.get_any_name() for output in model.outputs]
        self._model = core.compile_model(model, "CPU", _EXACT)
        self._config = config

    def __call__(self, features):
        """dict of name to float32 array: the outputs.

        Args:
            features: dict of int arrays or tensors, as an encoder takes them.
        """
        outputs = self._model(as_inputs(features, self._config))
        return {name: outputs[place].copy() for place, name in enumerate(self._names)}
