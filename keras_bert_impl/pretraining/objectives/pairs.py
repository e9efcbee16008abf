"""Objectives on pairs of segments."""

from typing import Any

import keras

from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import pooled_head
from keras_bert_impl.pretraining.objectives.base import Objective, Tensors


class _PairObjective(Objective):
    """Binary classification of segment pairs from the pooled first token of each example."""

    features = ("cls_positions",)
    uses_pooler = True
    needs_both_sides = True

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        gather = GatherPositions(dtype=encoder.dtype_policy, name=f"gather_{self.name}")
        # A packed row has as many first tokens as examples: [batch, examples, hidden]
        first = gather(encoded["sequence_output"], inputs["cls_positions"])
        pooled = encoder.pooler(first) if encoder.pooler else first
        return {self.name: pooled_head(encoder, self.name)(pooled)}


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class NextSentence(_PairObjective):
    """Predicts whether the second segment follows the first or is from another document.

    Source: Devlin et al., "BERT", section 3.1.
    """

    name = head = "next_sentence"


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SentenceOrder(_PairObjective):
    """Predicts whether two consecutive segments are in order or swapped.

    Source: Lan et al. 2019, "ALBERT", section 3.1.
    """

    name = head = "sentence_order"
