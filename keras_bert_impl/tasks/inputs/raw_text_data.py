"""`RawTextData`: what a user gives to a task model, as rows of features and labels."""

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
    """The data side of `RawTextTrainer`: texts, features and labels.

    A class that uses it has the attributes `tokenizer` and `max_length` and says what labels are:
    `encode_labels`, `label_tensor`.
    """

    has_several_rows = False  # whether a text may be several rows
    needs_labels = True  # whether the loss has any
    has_token_labels = False  # whether each token has one
    text_rank = 1  # of string tensors in a data set: [batch]
    text_columns = ()  # columns of a table that are known by name, see `user_input.from_columns`
    most_columns = 2

    # === What a subclass says ===

    def encode_labels(self, labels, count):
        """Labels as a user gives them, as an array for the loss, checked.

        Args:
            labels: list or array of `count` labels.
            count: int, the number of texts.

        Raises:
            InputError: another number of labels, or one that the model does not know.
        """
        raise NotImplementedError

    def check_labels(self, labels, features, sample_weight):
        """Raises an `InputError` where labels do not fit to features that are given as a dict."""

    def label_tensor(self, labels):
        """The same in the graph, for the labels of a batch of a `tf.data.Dataset`."""
        raise NotImplementedError

    def as_texts(self, x):
        """Converts user input to a list of texts, as `rows` takes it."""
        return user_input.as_list(x, self.text_columns, self.most_columns)

    def pack(self, texts):
        """Features of texts, a row for each, cut to `max_length` tokens.

        Args:
            texts: as a `Tokenizer` takes them, eagerly and in any graph.
        """
        return self.tokenizer(texts, length=self.max_length)

    def rows(self, texts, labels=None, weights=None):
        """The rows that the network is given for texts: here one for each.

        Args:
            texts: list, from `as_texts`.
            labels: what `encode_labels` returned, or None.
            weights: float32 array [texts], or None.

        Returns:
            (`TokenizedTexts`, tuple of targets [rows, ...]: labels, then weights).
        """
        tokenized = batching.tokenize_texts(
            texts, self.tokenizer, self.max_length, self.widths(), self.pack
        )
        return tokenized, tuple(target for target in (labels, weights) if target is not None)

    def joined(self, outputs, texts, tokenized):
        """What `predict` returns of the scores of all rows.

        Args:
            outputs: numpy arrays [rows, ...], what `scores` made.
            texts: list, from `as_texts`.
            tokenized: `TokenizedTexts` of their rows, from `rows`.
        """
        return outputs

    def completed(self, batches, first_batch=None):
        """Batches of rows with what is drawn for each of them; here as they are.

        Args:
            batches: `tf.data.Dataset` of `(features, *targets)`.
            first_batch: int64 variable, the number of the first one in training; None where the
                draws are to be the same each time.
        """
        return batches

    # === Data ===

    def steps_per_epoch(self, x, batch_size):
        """int. Batches of one pass over texts, of which some may have several rows."""
        return batching.num_batches(self.rows(self.as_texts(x))[0], batch_size)

    def widths(self, longest=None):
        """The lengths that batches are padded to on the devices of this model.

        Args:
            longest: int. Default: `max_length`.
        """
        longest = longest or self.max_length
        if isinstance(self.distribute_strategy, tf.distribute.TPUStrategy):
            return [longest]
        if self.compiled and self.jit_compile:
            return batching.doublings(longest)
        # Tensor cores multiply blocks of 8; a CPU is as fast per token at any length.
        on_gpu = bool(tf.config.list_logical_devices("GPU"))
        return batching.multiples(longest, 8 if on_gpu else 1)

    @property
    def feature_names(self):
        """tuple of str. The features that the network takes."""
        return tuple(self.input)

    def _read(self, x, shuffle=False):
        """Texts of a table; a data set of features for what gives batches; others as they are."""
        if streams.gives_batches(x):
            seed = self.compile_arguments().get("seed", 0)
            return streams.features_of_batches(self, x, seed, shuffle)
        return user_input.from_columns(x, self.text_columns, self.most_columns)

    def batch_features(self, x, y=None, sample_weight=None):
        """(features, *targets) of one batch, as the network takes them.

        Args:
            x, y, sample_weight: see `fit`.
        """
        return batching.batch_of(*self._rows(*self._examples(x, y, sample_weight)))

    def _examples(self, x, y, sample_weight):
        """Texts as a list or `FeatureRows`, labels as `rows` takes them, and weights or None."""
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
        """As `rows`, and of `FeatureRows`."""
        if not isinstance(texts, FeatureRows):
            return self.rows(texts, labels, weights)
        return texts, tuple(target for target in (labels, weights) if target is not None)

    def _validation(self, data, batch_size, steps=None):
        """A data set of features and labels, of what a user may give to validate on.

        Args:
            data: texts or features with labels, or batches.
            batch_size: int.
            steps: int. Of texts and features, batches to keep. Default: all.
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
        """(x, labels or None, weights or None)."""
        if isinstance(data, list) and not self.needs_labels:
            data = (data,)  # examples; a tuple may hold labels, too
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
        """(features, labels, weights) of a batch as a user gives it."""
        examples = self._examples(x, y, sample_weight)
        data = self._sorted(examples, len(examples[0]))
        return keras.utils.unpack_x_y_sample_weight(next(iter(data)))

    def _scores_of_nothing(self):
        # Not every layer takes a batch without rows.
        one = {
            name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
            for name, symbol in self.input.items()
        }
        outputs = self.scores(self(one, training=False))
        return keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)

    def features_in_graph(self, texts):
        """Features of a batch of texts, for data sets and exported models.

        Args:
            texts: string tensor `[batch]`, or a tuple of two for pairs.

        Returns:
            dict of int32 `[batch, length]`; length is at most `max_length`.
        """
        features = self.pack(texts)
        longest = tf.reduce_max(tf.reduce_sum(features["padding_mask"], axis=1))
        width = batching.least_of(self.widths(), longest)
        return {name: feature[:, :width] for name, feature in features.items()}
