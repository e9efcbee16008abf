"""`LanguageModel`: base class of masked and causal language models."""

import dataclasses
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.interop import OWN_SETTINGS, head_tensors, tied_tensors
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.scores.counting import token_weights
from keras_bert_impl.data.tables.label_codec import LabelCodec
from keras_bert_impl.layers.losses import cross_entropy
from keras_bert_impl.models.weights import check_tied
from keras_bert_impl.pretraining.masking.token_masks import NO_LABEL
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.base.token_labels import TokenLabels
from keras_bert_impl.utils.errors import InputError


class Perplexity(NamedTuple):
    """Perplexity, or pseudo-perplexity, of a corpus.

    Attributes:
        perplexity: float, the exponential of the mean negative log likelihood of all predicted
            tokens of the corpus.
        log_likelihoods: float64 [texts], log-likelihoods in nats; 0 for a text without predicted
            tokens.
        num_tokens: int64 [texts], number of predicted tokens.
    """

    perplexity: float
    log_likelihoods: np.ndarray
    num_tokens: np.ndarray

    @classmethod
    def of(cls, log_likelihoods: np.ndarray, num_tokens: np.ndarray) -> "Perplexity":
        mean = log_likelihoods.sum() / num_tokens.sum()
        return cls(float(np.exp(-mean)), log_likelihoods, num_tokens)


class TokenIds(LabelCodec):
    """Codec for token ids, `[rows, positions]`."""

    def encode(self, labels: Any, count: int) -> np.ndarray:
        labels = np.asarray(labels)
        if labels.ndim != 2 or len(labels) != count or labels.dtype.kind not in "iu":
            raise InputError(
                "the labels of texts are created by the model. Leave out the labels. Labels of "
                f"features must be integers [rows, predictions], {NO_LABEL} for none. Received: "
                f"{labels.dtype} {labels.shape}"
            )
        return labels.astype("int32")

    def tensor(self, labels: Any) -> tf.Tensor:
        return tf.cast(labels, tf.int32)


class LanguageModel(TokenLabels, TaskModel):
    """Base class of models that predict tokens.

    Labels are token ids; positions that are not predicted have a negative label. Users pass texts
    without labels: the methods `completed` and `completed_dataset` of subclasses create the labels.
    """

    has_masked_losses = False
    needs_labels = False
    draws_labels = True
    label_codec = TokenIds()

    def default_loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=NO_LABEL)

    def compile(self, optimizer: Any = None, loss: None = None, *args: Any, **kwargs: Any) -> None:
        """Configures training; see `RawTextTrainer.compile`.

        The loss is the mean cross-entropy of the predicted tokens.

        Raises:
            InputError: a loss is passed.
        """
        if loss is not None:
            raise InputError(
                "the loss of a language model is built in. Leave out loss=..., and pass only the "
                "optimizer and metrics."
            )
        super().compile(optimizer, None, *args, **kwargs)

    def loss_share(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, totals: Any) -> Any:
        losses = cross_entropy(keras.ops.maximum(y, 0), y_pred)
        total = keras.ops.sum(losses * token_weights(y, sample_weight))
        return total / keras.ops.maximum(totals, 1.0)

    def encoded_dataset(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Converts a `tf.data.Dataset` of batches of texts to features.

        Raises:
            InputError: the dataset has labels or weights.
        """
        _, y, weights = keras.utils.unpack_x_y_sample_weight(dataset.element_spec)
        if y is not None or weights is not None:
            raise InputError(
                "a language model does not take labels. Pass a dataset that contains only "
                "batches of texts."
            )

        @tf.autograph.experimental.do_not_convert
        def encode(texts):
            return texts if isinstance(texts, dict) else self.features_in_graph(texts)

        return dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE)

    # === Files ===

    def head_names(self) -> list[TensorName]:
        return head_tensors(self.config, "masked_lm")

    def pretrained_head(self, source: ModelSource) -> list[TensorName]:
        # A newly initialized head would predict random tokens.
        check_tied(source, tied_tensors(self.config))
        return [dataclasses.replace(name, optional=False) for name in self.head_names()]

    def file_config(self) -> dict[str, Any]:
        config = super().file_config()
        # Fine-tuned models usually have a different maximum length.
        del config[OWN_SETTINGS]["max_length"]
        return config
