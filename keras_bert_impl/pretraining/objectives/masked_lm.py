"""The masked LM objective."""

import keras

from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.pretraining.objectives.base import Objective
from keras_bert_impl.training.runs.flops import vocabulary_flops


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class MaskedLM(Objective):
    """Masked language modeling: predicts the original ids of masked tokens.

    The dataset chooses the tokens and how they are replaced; see `pretraining.Masking`.

    Features: `masked_positions` `[batch, predictions]`. Labels: the original ids, of that shape.
    Logits: `masked_lm`, `[batch, predictions, vocabulary]`.

    Args:
        weight: float. Factor of its loss in the total.

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        from keras_bert_impl.pretraining.objectives import MaskedLM
        Pretrainer(encoder, [MaskedLM()])
    """

    name = head = "masked_lm"
    features = ("masked_positions",)

    def connect(self, encoder, encoded, inputs):
        gather = GatherPositions(dtype=encoder.dtype_policy, name="gather_masked")
        states = gather(encoded["sequence_output"], inputs["masked_positions"])
        return {self.name: masked_lm_head(encoder)(states)}

    def flops(self, config, length, predictions):
        return predictions * vocabulary_flops(config)
