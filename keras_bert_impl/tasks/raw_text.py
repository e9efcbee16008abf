"""`RawTextTrainer`: `fit`, `evaluate` and `predict` on strings, of a network that takes ids."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks import batching
from keras_bert_impl.training.optimizer import default_optimizer
from keras_bert_impl.training.trainer import ReplicatedTrainer

FEATURES = ("token_ids", "segment_ids", "padding_mask")


class RawTextTrainer(ReplicatedTrainer):
    """Mixin in front of `keras.Model`: raw strings in, scores out.

    The network takes int32 `[batch, length]` `FEATURES`. `fit`, `evaluate` and `predict` take

    - texts: a list or array of str, of (first, second) tuples for pairs of segments, or a tuple of
      two such lists, the first and the second segments; and labels beside them;
    - a dict of features as numpy arrays or tensors;
    - a `tf.data.Dataset` of batches `(x, labels)` or `(x, labels, sample_weight)`, where x is a
      string tensor `[batch]`, a tuple of two, or a dict of features.

    Texts are cut to `max_length` tokens, the longer segment first. They are tokenized once, and
    batches hold texts of about one length; what is drawn depends on `(seed, epoch)` alone.

    A class that uses it has the attributes `tokenizer` and `max_length` and says what labels and
    scores are: `encode_labels`, `label_tensor`, `default_loss`, `default_metrics`, `scores`.
    """

    default_learning_rate = 3e-5
    default_rates = ()  # factors of it for some weights, as of `AdamW`
    has_several_rows = False  # whether a text may be several rows
    needs_labels = True  # whether the loss has any
    text_rank = 1  # of string tensors in a data set: [batch]
    _uses_default_optimizer = False
    _seed = 0

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

    def default_loss(self):
        """The loss where `compile` is given none."""
        raise NotImplementedError

    def default_metrics(self):
        """List of metrics where `compile` is given none."""
        raise NotImplementedError

    def scores(self, outputs):
        """What `predict` returns of the network's outputs."""
        return outputs

    def as_texts(self, x):
        """A list of what `rows` takes, of what a user may give as a batch of texts."""
        return batching.as_list(x)

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

    # === Keras ===

    def compile(self, optimizer=None, loss=None, metrics=None, seed=0, **kwargs):
        """As Keras's `compile`, with the task's defaults; `fit` calls it where nobody has.

        Args:
            optimizer: default: `default_optimizer` over the steps of each `fit`, that is AdamW with
                3e-5 at most (an adapter: as of `TuningSettings`), 10 % warm-up, linear decay,
                clipping at 1.0.
            loss: default: the task's.
            metrics: default: the task's; `[]` for none.
            seed: int. Decides the order of the texts and the units that dropout drops.
            **kwargs: as of `ReplicatedTrainer` and `keras.Model`: `accumulation_steps`,
                `objective`, `steps_per_execution`, `jit_compile`, ...
        """
        _check_backend()
        self._uses_default_optimizer = optimizer is None
        self._seed = seed
        with self.distribute_strategy.scope():
            # A partial, because Keras takes metrics in an attribute for metrics of the model.
            self._compile_with = functools.partial(
                super().compile,
                loss=self.default_loss() if loss is None else loss,
                metrics=self.default_metrics() if metrics is None else metrics,
                dropout_seed=seed,
                **kwargs,
            )
            if optimizer is None:
                optimizer = self._default_optimizer(1)
            self._compile_with(optimizer)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        sample_weight=None,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_batch_size=None,
        **kwargs,
    ):
        """Trains; everything is as in Keras, and x may be raw texts.

        A run that goes on with `initial_epoch` meets the batches that it would have met.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            **kwargs: as of `keras.Model.fit`: `callbacks`, `verbose`, `class_weight`, ...

        Returns:
            `keras.callbacks.History`.
        """
        self._compile_if_needed()
        batch_size = batch_size or 32
        if validation_data is not None:
            validation_data = self._validation(validation_data, validation_batch_size or batch_size)
        if isinstance(x, tf.data.Dataset):
            x = self._encoded(x)
            # A repeating data set has no end.
            steps = steps_per_epoch or int(x.cardinality())
            shuffle = False
        elif isinstance(x, dict):
            kwargs.update(batch_size=batch_size)
            y = self._labels_of_features(y, x, sample_weight)
            steps = steps_per_epoch or -(-_num_rows(x) // batch_size)
        else:
            examples = self._examples(x, y, sample_weight)
            if validation_split and validation_data is None:
                examples, held_out = batching.split(examples, validation_split)
                validation_data = self._sorted(held_out, validation_batch_size or batch_size)
            sample_weight, validation_split = None, 0.0
            tokenized, targets = self.rows(*examples)
            steps = steps_per_epoch or batching.num_batches(tokenized, batch_size)
            x = batching.training_batches(
                tokenized, targets, batch_size, self._seed, shuffle, initial_epoch * steps
            )
            y, steps_per_epoch, shuffle = None, steps, False
        if self._uses_default_optimizer:
            self._compile_with_schedule(steps * (epochs - initial_epoch))
        return super().fit(
            x,
            y,
            epochs=epochs,
            validation_split=validation_split,
            validation_data=validation_data,
            shuffle=shuffle,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_batch_size=validation_batch_size,
            **kwargs,
        )

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        """Loss and metrics; everything is as in Keras, and x may be raw texts.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            **kwargs: as of `keras.Model.evaluate`.
        """
        self._compile_if_needed()
        if kwargs.get("_use_cached_eval_dataset"):  # Keras, from inside `fit`
            return super().evaluate(**kwargs)
        data = x if isinstance(x, tf.data.Dataset) else (x, y, sample_weight)
        data = self._validation(data, batch_size or 32)
        if isinstance(data, tf.data.Dataset):
            return super().evaluate(data, **kwargs)
        x, y, sample_weight = data
        return super().evaluate(x, y, batch_size, sample_weight=sample_weight, **kwargs)

    def predict(self, x, batch_size=None, **kwargs):
        """The scores of texts, in the order given.

        Args:
            x: texts or features, see the class; labels in a data set are passed over. The default
                batch size is 32.
            **kwargs: as of `keras.Model.predict`.

        Returns:
            What `scores` makes of the network's outputs, as numpy arrays.
        """
        _check_backend()
        if isinstance(x, tf.data.Dataset):
            return super().predict(self._encoded(x, with_labels=False), **kwargs)
        if isinstance(x, dict):
            return super().predict(x, batch_size=batch_size, **kwargs)
        texts = self.as_texts(x)
        tokenized, _ = self.rows(texts)
        if not tokenized.num_texts:
            # Not every layer takes a batch of none.
            one = {
                name: tf.zeros([1, *(size or 2 for size in symbol.shape[1:])], symbol.dtype)
                for name, symbol in self.input.items()
            }
            outputs = self.scores(self(one, training=False))
            outputs = keras.tree.map_structure(lambda scores: np.asarray(scores)[:0], outputs)
            return self.joined(outputs, texts, tokenized)
        data, order = batching.sorted_batches(tokenized, (), batch_size or 32)
        outputs = self.predict_batches(data, **kwargs)
        back = np.argsort(order)
        outputs = keras.tree.map_structure(lambda rows: rows[back], outputs)
        return self.joined(outputs, texts, tokenized)

    def predict_batches(self, data, **kwargs):
        """The scores of all batches of a `tf.data.Dataset` of features, in one."""
        return super().predict(data, **kwargs)

    def predict_step(self, data):
        """The scores of a batch of one replica."""
        return self.scores(super().predict_step(data))

    def _compile_if_needed(self):
        if not self.compiled:
            self.compile()

    def _compile_with_schedule(self, total_steps):
        if total_steps < 1:
            raise InputError(
                "the length of the data set is unknown, and the default learning rate depends on "
                "it; give steps_per_epoch, or compile with an optimizer."
            )
        with self.distribute_strategy.scope():
            self._compile_with(self._default_optimizer(total_steps))

    def _default_optimizer(self, total_steps):
        rate = self.default_learning_rate
        return default_optimizer(total_steps, rate, rates=self.default_rates)

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

    def _examples(self, x, y, sample_weight):
        """Texts as a list, labels as `rows` takes them, and weights or None."""
        texts = self.as_texts(x)
        if not texts:
            raise InputError("there are no texts to train or evaluate on.")
        labels = self._labels(y, len(texts))
        if sample_weight is None:
            return texts, labels, None
        weights = np.asarray(sample_weight, "float32")
        if weights.shape[:1] != (len(texts),):
            raise InputError(f"{len(texts)} texts, but sample_weight has shape {weights.shape}.")
        return texts, labels, weights

    def _labels_of_features(self, y, features, sample_weight):
        labels = self._labels(y, _num_rows(features))
        self.check_labels(labels, features, sample_weight)
        return labels

    def _labels(self, y, count):
        if y is not None:
            return self.encode_labels(y, count)
        if self.needs_labels:
            raise InputError("labels are missing: give y, or a tf.data.Dataset of (texts, labels).")
        return None

    def _validation(self, data, batch_size):
        """What Keras can evaluate on: a data set, or (features, labels, weights)."""
        if isinstance(data, tf.data.Dataset):
            return self._encoded(data)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if isinstance(x, dict):
            return x, self._labels_of_features(y, x, sample_weight), sample_weight
        return self._sorted(self._examples(x, y, sample_weight), batch_size)

    def _sorted(self, examples, batch_size):
        return batching.sorted_batches(*self.rows(*examples), batch_size)[0]

    def _encoded(self, dataset, with_labels=True):
        """A data set of features and labels, of one that has strings or features, and labels."""
        spec = dataset.element_spec
        x, y, _ = keras.utils.unpack_x_y_sample_weight(spec)
        if self.has_several_rows and not isinstance(x, dict):
            raise InputError(
                "a data set of strings has a row for each text, of which windows and choices need "
                "several: give texts as a list, or a data set of features."
            )
        for part in tf.nest.flatten(x):
            if part.dtype == tf.string and part.shape.rank != self.text_rank:
                shape = "[batch]" if self.text_rank == 1 else "[batch, group]"
                raise InputError(
                    f"a data set must give batches of texts, string {shape}. Received: {part}"
                )
        with_labels = with_labels and (self.needs_labels or y is not None)
        if with_labels and y is None:
            raise InputError("the data set has no labels; it must give (texts, labels).")
        if not with_labels and _is_string(x) and _is_string(y):
            raise InputError(
                "the data set gives (string, string), which is a text and its label; for pairs of "
                "segments it must give ((first, second),)."
            )

        @tf.autograph.experimental.do_not_convert
        def encode(x, y=None, *weights):
            x = x if isinstance(x, dict) else self.features_in_graph(x)
            return (x, self.label_tensor(y), *weights) if with_labels else x

        return dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

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


def _check_backend():
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "tasks need the TensorFlow backend of Keras (KERAS_BACKEND=tensorflow): the encoder and "
            "its pre-training run on JAX, too."
        )


def _num_rows(features):
    return len(next(iter(features.values())))


def _is_string(spec):
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string
