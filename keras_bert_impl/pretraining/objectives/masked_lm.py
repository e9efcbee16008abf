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
    """Returns logits from a new masked LM head on hidden states, at `masked_positions`.

    `factored` is that of `MaskedLMHead`, for logits that only an objective with default losses
    reads.
    """
    gather = GatherPositions(dtype=encoder.dtype_policy, name="gather_masked")
    return masked_lm_head(encoder, factored=factored)(gather(states, inputs["masked_positions"]))


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class MaskedLM(Objective):
    """Masked language modeling: predicts the original ids of masked tokens.

    The dataset chooses the tokens and how they are replaced; see `pretraining.Masking`.

    Features: `masked_positions` `[batch, predictions]`. Labels: the original ids, of that shape.
    Logits: `masked_lm`, `[batch, predictions, vocabulary]`.

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        from keras_bert_impl.pretraining.objectives import MaskedLM
        Pretrainer(encoder, [MaskedLM()])
    """

    name = head = "masked_lm"
    needs_both_sides = True
    features = ("masked_positions",)

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        states = encoded["sequence_output"]
        return {self.name: masked_logits(encoder, states, inputs, self.has_default_losses)}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        return predictions * vocabulary_flops(config)
