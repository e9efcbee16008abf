"""The causal LM objective."""

import keras

from keras_bert_impl.interop import head_tensors, huggingface_config
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.pretraining.objectives.base import Objective
from keras_bert_impl.training.runs.flops import vocabulary_flops


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class LeftToRight(Objective):
    """Causal language modeling: predicts each next token from the tokens up to that position.

    The encoder must be causal. This is part of its configuration and of model directories, so that
    the encoder stays causal when it is fine-tuned, as in the paper. The head is the masked LM head,
    also in files. It cannot be combined with other objectives, which use context on both sides.

    Labels: the next ids, `[batch, length]`. Logits: `left_to_right`, `[batch, length, vocabulary]`.

    Args:
        weight: float. Factor of its loss in the total.

    Raises:
        InputError: the encoder is not causal, or the file format of its family cannot express this.

    Source: Devlin et al., "BERT", section 5.1.

    Example:
        import dataclasses
        from keras_bert_impl.pretraining.objectives import LeftToRight
        Pretrainer(Encoder(dataclasses.replace(config, causal=True)), [LeftToRight()])
    """

    name = head = "left_to_right"

    def connect(self, encoder, encoded, inputs):
        if not encoder.config.causal:
            raise InputError("left_to_right takes an encoder whose configuration has causal=True.")
        huggingface_config(encoder.config, self.head)  # raises if files cannot express it
        return {self.name: masked_lm_head(encoder)(encoded["sequence_output"])}

    def flops(self, config, length, predictions):
        return vocabulary_flops(config)

    def tensors(self, config):
        return head_tensors(config, "masked_lm")
