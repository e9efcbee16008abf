"""Examples of several texts each: their features, and what a network makes of the group."""

import dataclasses

import keras
import tensorflow as tf
from keras import ops

from keras_bert_impl.tasks.batching import TokenizedTexts, tokenize_texts
from keras_bert_impl.tasks.raw_text import FEATURES


@dataclasses.dataclass(frozen=True)
class GroupedTexts:
    """Examples of so many texts each; batches are made of it as of `TokenizedTexts`.

    Attributes:
        texts: `TokenizedTexts`, those of an example one after the other.
        group: int, texts of an example.
    """

    texts: TokenizedTexts
    group: int

    @property
    def num_texts(self):
        """int. Examples."""
        return self.texts.num_texts // self.group

    @property
    def lengths(self):
        """int32 [examples]: tokens of the longest text of each example."""
        return tf.reduce_max(tf.reshape(self.texts.lengths, [-1, self.group]), axis=1)

    def features(self, rows):
        """The features of a batch, in eager mode and in any graph.

        Args:
            rows: int64 [rows], numbers of examples.

        Returns:
            dict of int32 [rows, group, length], as of `TokenizedTexts.features`.
        """
        texts = rows[:, tf.newaxis] * self.group + tf.range(self.group, dtype=rows.dtype)
        features = self.texts.features(tf.reshape(texts, [-1]))
        return {name: in_groups(feature, self.group) for name, feature in features.items()}


def tokenize_groups(examples, tokenizer, max_length, widths=None):
    """Tokenizes examples of several texts each.

    Args:
        examples: list of lists of texts, all of one length, each text as of `tokenize_texts`.
        tokenizer, max_length, widths: as of `tokenize_texts`.

    Returns:
        `GroupedTexts`.
    """
    texts = [text for example in examples for text in example]
    group = len(examples[0]) if examples else 1
    return GroupedTexts(tokenize_texts(texts, tokenizer, max_length, widths), group)


def in_groups(feature, group):
    """`[rows * group, length]` as `[rows, group, length]`, with what is static kept."""
    shape = [-1, group, tf.shape(feature)[1]]
    return tf.ensure_shape(tf.reshape(feature, shape), [None, group, feature.shape[1]])


def grouped_inputs():
    """dict of the inputs of a network of groups, int32 `[batch, group, length]` each."""
    return {name: keras.Input((None, None), dtype="int32", name=name) for name in FEATURES}


class MergeGroups(keras.layers.Layer):
    """`[batch, group, length]` to `[batch * group, length]`."""

    def call(self, inputs):
        return ops.reshape(inputs, (-1, ops.shape(inputs)[2]))

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((None, inputs.shape[2]), inputs.dtype)


class SplitGroups(keras.layers.Layer):
    """`[batch * group, dim]` to `[batch, group, dim]`, with the group of another tensor.

    Call arguments:
        inputs: `[batch * group, dim]`.
        like: `[batch, group, ...]`.
    """

    def call(self, inputs, like):
        return ops.reshape(inputs, (-1, ops.shape(like)[1], inputs.shape[-1]))

    def compute_output_shape(self, inputs_shape, like_shape):
        return (*like_shape[:2], inputs_shape[-1])
