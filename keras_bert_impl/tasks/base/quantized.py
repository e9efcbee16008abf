"""Quantization of task models."""

from collections.abc import Callable
from typing import Annotated, Any

import keras

from keras_bert_impl.internals import all_layers
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import OneOf, check
from keras_bert_impl.models.encoder import Encoder


class Quantized:
    encoder: Encoder
    is_quantized: bool
    outputs_function: Callable | None

    def quantize(self, mode: str = "int8", config: Any = None) -> None:
        """Quantizes the weights of all dense layers in place, like Keras's `quantize`.

        A quantized model cannot be trained or saved. The mode is `"int8"` or `"int4"`.

        Raises:
            InputError: the mode is unknown, or the model has an adapter or computes in float16.
        """
        check("mode", mode, Annotated[str, OneOf("int8", "int4")])
        if self.encoder.compute_dtype == "float16":
            raise InputError("a model in float16 cannot be quantized. Load it in float32.")
        if self.encoder.config.adapter is not None:
            line = "merge LoRA with save_pretrained(directory), then load that directory."
            raise InputError(f"a model with an adapter cannot be quantized: {line}")
        for layer in all_layers(self):
            if isinstance(layer, keras.layers.Dense):
                layer.quantize(mode, type_check=False, config=config)
        self.is_quantized = True
        self.train_function = self.test_function = None
        self.predict_function = self.outputs_function = None


def quantized_error(what: str) -> InputError:
    return InputError(
        f"a quantized model cannot be {what}. Call export(directory), or quantize a copy."
    )
