"""Prediction for sentence pairs with the pre-training head of BERT or ALBERT."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import head_tensors
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.scores.counting import score_metrics
from keras_bert_impl.data.tables.label_checks import class_numbers, class_weights
from keras_bert_impl.data.tables.label_codec import LabelCodec
from keras_bert_impl.data.tables.labels import label_values
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import check_sees_all, pooled_head
from keras_bert_impl.tasks.base.feature_rows import task_inputs
from keras_bert_impl.tasks.base.keras_losses import Outputs
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.text_classification.signature import (
    NextSentenceNetwork,
    NextSentenceSignatures,
)
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Rate

_HEADS = {"bert": "next_sentence", "albert": "sentence_order"}


class FollowsLabels(LabelCodec):
    """Converts labels of text pairs: 1 if the second text follows the first, else 0."""

    has_classes = True

    def factors(self, class_weight: Any, labels: Any) -> list[float]:
        # Class weights are in the order 0, 1, but the first logit belongs to label 1.
        flipped = None if labels is None else 1 - labels
        factors = class_weights(class_weight, ["0", "1"], flipped)
        return [factors[1], factors[0]]

    def encode(self, labels: Any, count: int) -> np.ndarray:
        try:
            follows = np.asarray(label_values(labels, count)).reshape(count)
        except ValueError as error:
            raise InputError(f"labels must be {count} numbers, 0 or 1. {error}") from error
        if not np.isin(follows, (0, 1)).all():
            raise InputError(f"labels must be {count} numbers, 0 or 1. Received: {labels!r:.60}")
        return 1 - follows.astype("int32")

    def tensor(self, labels: Any) -> tf.Tensor:
        return 1 - tf.reshape(class_numbers(labels, 2), [-1])


@keras.saving.register_keras_serializable("keras_bert_impl")
class NextSentencePredictor(TaskModel):
    """Predicts the probability that the second text of a pair follows the first.

    BERT was pre-trained to distinguish the next text from a text of another document. ALBERT was
    pre-trained to distinguish two consecutive texts from the same texts in reverse order.

    See `RawTextTrainer` for the inputs of `fit`, `evaluate` and `predict`. Texts are (first,
    second) tuples. A label is 1 or True if the second text follows the first, else 0 or False.

    The network returns logits, float32 `[batch, 2]`. The first logit is the logit of "follows".
    `predict` returns the probability of "follows", float32 `[batch]`.

    Args:
        encoder: BERT or ALBERT `Encoder` with a pooler.
        max_length: maximum number of tokens in a pair. Longer pairs are truncated. Default: the
            maximum of the encoder.
        head_dropout: dropout rate before the linear layer. Default 0.

    Source: Devlin et al., "BERT", section 3.1, and Lan et al. 2019, "ALBERT", section 3.1.

    Example:
        model = NextSentencePredictor.from_pretrained("path/to/bert-base-uncased")
        model.predict([("It began to rain.", "We opened our umbrellas.")])  # such as [0.99]
    """

    settings = ("head_dropout",)
    signature_class = NextSentenceSignatures
    network = NextSentenceNetwork
    pipeline_tag = "text-classification"
    example_call = ".predict([('One text.', 'Another.')])"
    outputs_are = Outputs(num_classes=2, is_reversed=True)  # the first logit is "follows"

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        head_dropout: Rate = 0.0,
        name: str | None = None,
    ) -> None:
        config = encoder.config
        head = _HEADS.get(config.architecture)
        if head is None or not config.use_pooler:
            raise InputError(
                f"next-sentence prediction requires the pooler of {' or '.join(_HEADS)}. "
                f"Received: {config.architecture}, use_pooler={config.use_pooler}"
            )
        check_sees_all(config)
        inputs = task_inputs()
        pooled = encoder(inputs)["pooled_output"]
        outputs = pooled_head(encoder, head, head_dropout)(pooled)  # [batch, 2]
        max_length = config.max_length if max_length is None else max_length
        super().__init__(encoder, tokenizer, inputs, outputs, max_length=max_length, name=name)
        self.head = head
        self.head_dropout = head_dropout

    def checked_texts(self, x: Any) -> list[tuple]:
        pairs = super().checked_texts(x)
        for position, pair in enumerate(pairs):
            if not isinstance(pair, tuple):
                raise InputError(
                    f"text {position} must be a (first, second) tuple. Received: {pair!r:.60}"
                )
        return pairs

    def features_in_graph(self, texts: Any) -> dict[str, tf.Tensor]:
        if not isinstance(texts, tuple):
            raise InputError("a dataset must yield pairs of texts: ((first, second), labels).")
        return super().features_in_graph(texts)

    label_codec = FollowsLabels()

    def named_metrics(self) -> dict[str, Callable[[], Any]]:
        return score_metrics(2, positive_class=0)

    def scores(self, outputs: Any) -> Any:
        return ops.softmax(outputs)[:, 0]

    @staticmethod
    def uses_pooler(config: EncoderConfig) -> bool:
        return True

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        # A newly initialized head would make random predictions.
        names = head_tensors(self.config, self.head)
        return [dataclasses.replace(name, optional=False) for name in names]
