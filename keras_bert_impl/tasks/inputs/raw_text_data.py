"""`RawTextData`: converts a task model's user input to rows of features and labels."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.data import user_input
from keras_bert_impl.tasks.data.labels import check_weights
from keras_bert_impl.tasks.inputs import batching, streams
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows, complete
from keras_bert_impl.tasks.inputs.fit_arguments import first_batches
from keras_bert_impl.tasks.inputs.text_datasets import encode_dataset


class RawTextData:
    """The data methods of `RawTextTrainer`: texts, features and labels.

    Subclasses have the attributes `tokenizer` and `max_length` and define the labels:
    `encode_labels`, `label_tensor`.
    """

    has_several_rows = False  # whether a text may have several rows
    needs_labels = True  # whether the loss uses labels
    has_token_labels = False  # whether each token has a label
    text_rank = 1  # rank of string tensors in a dataset: [batch]
    text_columns = ()  # table columns known by name, see `user_input.from_columns`
    most_columns = 2

    # === For subclasses ===

    def encode_labels(self, labels, count):
        """Checks a user's labels and converts them to an array for the loss.

        Args:
            labels: list or array of `count` labels.
            count: int. Number of texts.

        Raises:
            InputError: the number of labels differs, or a label is unknown to the model.
        """
        raise NotImplementedError

    def check_labels(self, labels, features, sample_weight):
        """Raises `InputError` if labels do not match features that are given as a dict."""

    def label_tensor(self, labels):
        """Same as `encode_labels` in the graph, for the labels of a `tf.data.Dataset` batch."""
        raise NotImplementedError

    def as_texts(self, x):
        """Converts user input to a list of texts for `rows`."""
        return user_input.as_list(x, self.text_columns, self.most_columns)

    def pack(self, texts):
        """Computes the features of texts, one row each, truncated to `max_length` tokens.

        Args:
            texts: input of a `Tokenizer`, in eager mode and in any graph.
        """
        return self.tokenizer(texts, length=self.max_length)

    def rows(self, texts, labels=None, weights=None):
        """Tokenizes texts to rows of the network; here one row per text.

        Args:
            texts: list, from `as_texts`.
            labels: return value of `encode_labels`, or None.
            weights: float32 array [texts], or None.

        Returns:
            (`TokenizedTexts`, tuple of targets [rows, ...]: labels, then weights).
        """
        tokenized = batching.tokenize_texts(
            texts, self.tokenizer, self.max_length, self.widths(), self.pack
        )
        return tokenized, tuple(target for target in (labels, weights) if target is not None)

    def joined(self, outputs, texts, tokenized):
        """Converts the scores of all rows to the return value of `predict`.

        Args:
            outputs: numpy arrays [rows, ...], return value of `scores`.
            texts: list, from `as_texts`.
            tokenized: `TokenizedTexts` of their rows, from `rows`.
        """
        return outputs

    def completed(self, batches, first_batch=None):
        """Adds randomly drawn features or targets to batches of rows; here returns them unchanged.

        Args:
            batches: `tf.data.Dataset` of `(features, *targets)`.
            first_batch: int64 variable, the index of the first training batch; None to draw the
                same each time.
        """
        return batches

    # === Data ===

    def steps_per_epoch(self, x, batch_size):
        """int. Number of batches of one pass over texts, some of which may have several rows."""
        return batching.num_batches(self.rows(self.as_texts(x))[0], batch_size)

    def widths(self, longest=None):
        """Returns the lengths that batches are padded to on the devices of this model.

        Args:
            longest: int. Default: `max_length`.
        """
        longest = longest or self.max_length
        if isinstance(self.distribute_strategy, tf.distribute.TPUStrategy):
            return [longest]
        if self.compiled and self.jit_compile:
            return batching.doublings(longest)
        # Tensor cores multiply blocks of 8; the speed of a CPU per token is the same at any length.
        on_gpu = bool(tf.config.list_logical_devices("GPU"))
        return batching.multiples(longest, 8 if on_gpu else 1)

    @property
    def feature_names(self):
        """tuple of str. The features that the network takes."""
        return tuple(self.input)

    def _read(self, x, shuffle=False):
        """Reads tables to texts and batch streams to a dataset of features; else returns `x`."""
        if streams.gives_batches(x):
            seed = self.compile_arguments().get("seed", 0)
            return streams.features_of_batches(self, x, seed, shuffle)
        return user_input.from_columns(x, self.text_columns, self.most_columns)

    def batch_features(self, x, y=None, sample_weight=None):
        """Returns (features, *targets) of one batch for the network.

        Args:
            x, y, sample_weight: see `fit`.
        """
        return batching.batch_of(*self._rows(*self._examples(x, y, sample_weight)))

    def _examples(self, x, y, sample_weight):
        """Returns texts as a list or `FeatureRows`, labels for `rows`, and weights or None."""
        x = user_input.from_columns(x, self.text_columns, self.most_columns)
        if isinstance(x, dict):
            x = complete(x, self.tokenizer.pad_id, self.feature_names, self.config)
            texts = FeatureRows(x)
        else:
            texts = self.as_texts(x)
        if not len(texts):
            raise InputError("there are no texts to train or evaluate on.")
        labels = self._labels(y, len(texts))
        if isinstance(x, dict) and labels is not None:
            self.check_labels(labels, x, sample_weight)
            labels = np.asarray(labels)
        if sample_weight is None:
            return texts, labels, None
        per_token = self.has_token_labels and isinstance(x, dict)
        return texts, labels, check_weights(sample_weight, len(texts), per_token)

    def _labels(self, y, count):
        if y is not None:
            return self.encode_labels(y, count)
        if self.needs_labels:
            raise InputError("labels are missing: give y, or a tf.data.Dataset of (texts, labels).")
        return None

    def _rows(self, texts, labels=None, weights=None):
        """Same as `rows`; also accepts `FeatureRows`."""
        if not isinstance(texts, FeatureRows):
            return self.rows(texts, labels, weights)
        return texts, tuple(target for target in (labels, weights) if target is not None)

    def _validation(self, data, batch_size, steps=None):
        """Converts a user's validation data to a dataset of features and labels.

        Args:
            data: texts or features with labels, or batches.
            batch_size: int.
            steps: int. For texts and features, the number of batches to keep. Default: all.
        """
        if streams.gives_batches(data):
            data = self._read(data)
        if isinstance(data, tf.data.Dataset):
            return encode_dataset(self, data)
        x, y, sample_weight = self._validation_parts(data)
        examples = self._examples(x, y, sample_weight)
        kept = [first_batches(part, batch_size, steps) for part in examples]
        return self._sorted(kept, batch_size)

    def _validation_parts(self, data):
        """Unpacks validation data to (x, labels or None, weights or None)."""
        if isinstance(data, list) and not self.needs_labels:
            data = (data,)  # examples; a tuple may also contain labels
        if isinstance(data, (list, tuple)) and (
            not 1 <= len(data) <= 3 or user_input.is_one_text(data[0])
        ):
            raise InputError(
                "validation_data must be (texts, labels) or (texts, labels, sample_weight), or "
                f"batches of those. Received: a {type(data).__name__} of {len(data)}"
            )
        return keras.utils.unpack_x_y_sample_weight(data)

    def _sorted(self, examples, batch_size):
        return self.completed(batching.sorted_batches(*self._rows(*examples), batch_size)[0])

    def _one_batch(self, x, y, sample_weight):
        """Returns (features, labels, weights) of a user's batch."""
        examples = self._examples(x, y, sample_weight)
        data = self._sorted(examples, len(examples[0]))
        return keras.utils.unpack_x_y_sample_weight(next(iter(data)))

    def _scores_of_nothing(self):
        # Not every layer accepts a batch of 0 rows.
        one = {
            name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
            for name, symbol in self.input.items()
        }
        outputs = self.scores(self(one, training=False))
        return keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)

    def features_in_graph(self, texts):
        """Computes the features of a batch of texts, for datasets and exported models.

        Args:
            texts: string tensor `[batch]`, or a tuple of two for pairs.

        Returns:
            dict of int32 `[batch, length]`; the length is at most `max_length`.
        """
        features = self.pack(texts)
        longest = tf.reduce_max(tf.reduce_sum(features["padding_mask"], axis=1))
        width = batching.least_of(self.widths(), longest)
        return {name: feature[:, :width] for name, feature in features.items()}
