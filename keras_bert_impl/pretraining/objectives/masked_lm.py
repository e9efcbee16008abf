"""The masked LM objective."""

from typing import Any

import keras

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.pretraining.objectives.base import Objective, Tensor, Tensors
from keras_bert_impl.training.runs.flops import vocabulary_flops


def masked_logits(
    encoder: Encoder, states: Tensor, inputs: Tensors, factored: bool = False
) -> Tensor:
    """Returns logits from a new masked LM head on hidden states, at `masked_positions`."""
    gather = GatherPositions(dtype=encoder.dtype_policy, name="gather_masked")
    return masked_lm_head(encoder, factored=factored)(gather(states, inputs["masked_positions"]))


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class MaskedLM(Objective):
    """Masked language modeling: predicts the original ids of masked tokens.

    Source: Devlin et al., "BERT", section 3.1.
    """

    name = head = "masked_lm"
    needs_both_sides = True
    features = ("masked_positions",)

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        states = encoded["sequence_output"]
        return {self.name: masked_logits(encoder, states, inputs, self.has_default_losses)}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        return predictions * vocabulary_flops(config)
