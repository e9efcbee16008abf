"""The left-to-right language model."""

import keras

from keras_bert_impl.interop import head_tensors, huggingface_config
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.pretraining.objectives.base import Objective
from keras_bert_impl.training.runs.flops import vocabulary_flops


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class LeftToRight(Objective):
    """Says of each token which one comes next, from itself and those before it.

    The encoder has to be causal. That it is stands in its configuration, and in that of a model
    directory, so that it is still so where the encoder is tuned, as in the paper. The head is that
    of the masked language model, in files too. It goes with no other objective: they look at both
    sides.

    Labels: the next ids, `[batch, length]`. Logits: `left_to_right`,
    `[batch, length, vocabulary]`.

    Args:
        weight: float. Factor of its loss in the total.

    Raises:
        InputError: an encoder that is not causal, or of a kind whose files cannot say so.

    Source: Devlin et al., "BERT", section 5.1.

    Example:
        Pretrainer(Encoder(dataclasses.replace(config, causal=True)), [LeftToRight()])
    """

    name = head = "left_to_right"

    def connect(self, encoder, encoded, inputs):
        if not encoder.config.causal:
            raise InputError("left_to_right takes an encoder whose configuration has causal=True.")
        huggingface_config(encoder.config, self.head)  # raises for kinds whose files cannot say it
        return {self.name: masked_lm_head(encoder)(encoded["sequence_output"])}

    def flops(self, config, length, predictions):
        return vocabulary_flops(config)

    def tensors(self, config):
        return head_tensors(config, "masked_lm")
