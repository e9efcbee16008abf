"""The causal LM objective."""

from typing import Any

import keras

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop import head_tensors, huggingface_config
from keras_bert_impl.interop.layouts.names import TensorName
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.pretraining.objectives.base import Objective, Tensors
from keras_bert_impl.training.runs.flops import vocabulary_flops


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class LeftToRight(Objective):
    """Causal language modeling: predicts each next token from the tokens up to that position.

    Source: Devlin et al., "BERT", section 5.1.
    """

    name = head = "left_to_right"

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        if not encoder.config.causal:
            raise InputError(
                "left_to_right needs an encoder with causal=True in its configuration."
            )
        huggingface_config(encoder.config, self.head)  # raises if files cannot express it
        head = masked_lm_head(encoder, factored=self.has_default_losses)
        return {self.name: head(encoded["sequence_output"])}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        return vocabulary_flops(config)

    def tensors(self, config: EncoderConfig) -> list[TensorName]:
        return head_tensors(config, "masked_lm")
