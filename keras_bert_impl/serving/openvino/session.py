"""Inference with OpenVINO."""

import openvino

from keras_bert_impl.serving.network.proof import as_inputs

# Otherwise OpenVINO computes in bfloat16, with 8 significant bits, on processors that support it.
_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


class Session:
    """Runs an exported OpenVINO model on the CPU.

    Args:
        path: path of the `.xml` file.
        config: `EncoderConfig` of the exported model.
    """

    def __init__(self, path, config):
        core = openvino.Core()
        model = core.read_model(path)
        # After compilation, an output also has the names of the tensors it was made from.
        self._names = [output.get_any_name() for output in model.outputs]
        self._model = core.compile_model(model, "CPU", _EXACT)
        self._config = config

    def __call__(self, features):
        """Returns the outputs, a dict of name to float32 array.

        Args:
            features: dict of int arrays or tensors, the features of an encoder.
        """
        outputs = self._model(as_inputs(features, self._config))
        return {name: outputs[place].copy() for place, name in enumerate(self._names)}
