"""`RawTextTrainer`: `fit`, `evaluate` and `predict` on strings for networks that take token ids."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tasks.base.task_compile import TaskCompile, check_backend
from keras_bert_impl.tasks.data.class_weights import weighted, with_class_weights
from keras_bert_impl.tasks.data.label_checks import readable_errors
from keras_bert_impl.tasks.inputs import batching, streams
from keras_bert_impl.tasks.inputs.blocks import blocks, in_blocks
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows, complete
from keras_bert_impl.tasks.inputs.fit_arguments import (
    FitSizes,
    check_batches_alone,
    check_callbacks,
    checked_sizes,
    first_batches,
    is_batched,
)
from keras_bert_impl.tasks.inputs.raw_text_data import RawTextData
from keras_bert_impl.tasks.inputs.text_datasets import encode_dataset
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer


class RawTextTrainer(RawTextData, TaskCompile, ReplicatedTrainer):
    """Mixin before `keras.Model`: takes raw strings, returns scores.

    The network takes int32 `[batch, length]` `FEATURES`. `fit`, `evaluate` and `predict` take

    - texts: a list, array or column of str, of (first, second) tuples for pairs of segments, or a
      tuple of two such lists, the first and the second segments; labels are a separate argument;
    - a table with one column of texts, or two for pairs, see `user_input.from_columns`;
    - a generator or `keras.utils.PyDataset` of batches `(x, labels)` or
      `(x, labels, sample_weight)`, where x is one of these; a generator needs `steps_per_epoch`;
    - a dict of features as numpy arrays or tensors;
    - a `tf.data.Dataset` of batches `(x, labels)` or `(x, labels, sample_weight)`, where x is a
      string tensor `[batch]`, a tuple of two, or a dict of features.

    Texts are truncated to `max_length` tokens, the longer segment first. They are tokenized once,
    and batches hold texts of similar length. Random choices depend only on
    `(seed, epoch)`.

    Subclasses define the labels, see `RawTextData`, and the training objective, see `TaskCompile`.
    """

    block_texts = block_characters = None  # for `predict`, see `blocks`; None for its defaults

    # === Keras ===

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_steps=None,
        validation_batch_size=None,
        validation_freq=1,
    ):
        """Trains the model as in Keras; x may be raw texts.

        A run resumed with `initial_epoch` or `keras.callbacks.BackupAndRestore` sees the batches
        that the uninterrupted run would have seen.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            class_weight: dict of label name or class index -> factor in the loss, 1 for missing
                classes; a number for each class; or `"balanced"`: texts / (classes * texts of the
                class), so that all classes count alike. Multiplied by `sample_weight`.
            **kwargs: the other arguments of `keras.Model.fit`.

        Returns:
            `keras.callbacks.History`.
        """
        self._check_not_quantized("does not train")
        self._compile_if_needed()
        self._check_objective()
        sizes = FitSizes(
            batch_size,
            epochs,
            initial_epoch,
            validation_split,
            steps_per_epoch,
            validation_steps,
            validation_batch_size,
            validation_freq,
        )
        check_callbacks(callbacks, self.optimizer)
        self._initial_epoch = None  # BackupAndRestore of an earlier fit leaves it set
        first_batch = tf.Variable(0, trainable=False, dtype=tf.int64)
        steps_per_epoch, labels = sizes.steps_per_epoch, None
        if is_batched(x):
            check_batches_alone(
                x, y=y, sample_weight=sample_weight, validation_split=sizes.validation_split or None
            )
            x = encode_dataset(self, self._read(x, shuffle))
            # A repeating dataset is infinite.
            steps = steps_per_epoch or int(x.cardinality())
        else:
            examples = self._examples(x, y, sample_weight)
            if sizes.validation_split and validation_data is None:
                examples, held_out = batching.split(examples, sizes.validation_split)
                validation_data = self._sorted(held_out, sizes.validation_batch_size)
            rows, targets = self._rows(*examples)
            labels = examples[1]
            steps = steps_per_epoch or batching.num_batches(rows, sizes.batch_size)
            seed = self._given.arguments["seed"]
            x = batching.training_batches(
                rows, targets, sizes.batch_size, seed, shuffle, first_batch
            )
            x = self.completed(x, first_batch)
            steps_per_epoch = steps
        if class_weight is not None:
            x = with_class_weights(x, self.class_factors(class_weight, labels))
        validation_steps = sizes.validation_steps
        if validation_data is not None:
            in_steps = is_batched(validation_data)
            validation_data = self._validation(
                validation_data, sizes.validation_batch_size, validation_steps
            )
            validation_steps = validation_steps if in_steps else None
        self._begin_run(steps, sizes.epochs - sizes.initial_epoch)
        with readable_errors():
            return super().fit(
                x,
                epochs=sizes.epochs,
                verbose=verbose,
                callbacks=_with(_StartOfData(first_batch, steps), callbacks),
                validation_data=validation_data,
                shuffle=False,  # the dataset determines the order
                initial_epoch=sizes.initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_freq=sizes.validation_freq,
            )

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        **kwargs,
    ):
        """Computes loss and metrics as in Keras; x may be raw texts.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            steps: int. Number of batches to evaluate, from the first. Default: all.
            **kwargs: the other arguments of `keras.Model.evaluate`.
        """
        self._compile_if_needed()
        if not kwargs.get("_use_cached_eval_dataset"):  # set by Keras inside `fit`
            batch_size, steps = checked_sizes(batch_size, steps)
            if is_batched(x):
                check_batches_alone(x, y=y, sample_weight=sample_weight)
                x = self._validation(x, batch_size)
            else:
                x, steps = self._validation((x, y, sample_weight), batch_size, steps), None
        with readable_errors():
            return super().evaluate(x, verbose=verbose, steps=steps, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", steps=None, **kwargs):
        """Predicts the scores of texts, in the order given.

        Args:
            x: texts or features, see the class; labels in a dataset are ignored. The default batch
                size is 32. Texts are tokenized and predicted in blocks of 1,024 texts or 1,048,576
                characters, so that only the memory of the result grows with their number.
            steps: int. Number of batches to predict, from the first. Default: all.
            **kwargs: the other arguments of `keras.Model.predict`.

        Returns:
            The network's outputs converted by `scores`, as numpy arrays.
        """
        check_backend()
        batch_size, steps = checked_sizes(batch_size, steps)
        kwargs["verbose"] = verbose
        if streams.gives_batches(x):
            each = functools.partial(RawTextTrainer.predict, self, batch_size=batch_size)
            labels = getattr(self, "labels", ())
            batches = streams.text_batches(x, steps, labels)
            return streams.joined(each(texts, **kwargs) for texts in batches)
        x = self._read(x)
        if isinstance(x, tf.data.Dataset):
            data = encode_dataset(self, x, with_labels=False)
            return super().predict(data, steps=steps, **kwargs)
        if isinstance(x, dict):
            x = complete(x, self.tokenizer.pad_id, self.feature_names, self.config)
            rows, _ = self._rows(first_batches(FeatureRows(x), batch_size, steps))
            return super().predict(batching.sorted_batches(rows, (), batch_size)[0], **kwargs)
        texts = first_batches(self.as_texts(x), batch_size, steps)
        limits = self.block_texts, self.block_characters
        if len(next(blocks(texts, *limits))) == len(texts):
            return self._predict_block(texts, batch_size, **kwargs)
        progress = keras.utils.Progbar(len(texts), verbose=1 if verbose == "auto" else verbose)
        kwargs |= {"batch_size": batch_size, "verbose": 0}
        predict = functools.partial(self._predict_block, **kwargs)
        return in_blocks(predict, texts, *limits, done=progress.add)

    def _predict_block(self, texts, batch_size, **kwargs):
        rows, _ = self.rows(texts)
        if not rows.num_texts:
            return self.joined(self._scores_of_nothing(), texts, rows)
        data, order = batching.sorted_batches(rows, (), batch_size)
        outputs = self.predict_batches(data, **kwargs)
        back = np.argsort(order)
        outputs = keras.tree.map_structure(lambda scores: scores[back], outputs)
        return self.joined(outputs, texts, rows)

    def predict_batches(self, data, **kwargs):
        """Predicts all batches of a `tf.data.Dataset` of features; returns the joined scores."""
        return super().predict(data, **kwargs)

    def predict_step(self, data):
        """Predicts the scores of one replica's batch."""
        return self.scores(super().predict_step(data))

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        """Runs one training step on one batch, as in Keras; x may be raw texts.

        Raises:
            InputError: the model has the default optimizer, whose learning rate depends on the
                number of steps.
        """
        if self._uses_default_optimizer:
            raise InputError(
                "the default learning rate depends on the number of steps, which train_on_batch "
                "does not know: write compile(optimizer=AdamW(3e-5)) first."
            )
        self._check_objective()
        x, y, sample_weight = self._one_batch(x, y, sample_weight)
        if class_weight is not None:
            factors = self.class_factors(class_weight, np.asarray(y))
            sample_weight = weighted(y, sample_weight, factors)
        return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        """Computes loss and metrics of one batch, as in Keras; x may be raw texts."""
        self._compile_if_needed()
        return super().test_on_batch(*self._one_batch(x, y, sample_weight), return_dict)

    def predict_on_batch(self, x):
        """Predicts the scores of one batch: `predict` with all examples in one batch."""
        return self.predict(x, batch_size=_num_rows(x), verbose=0)

    def __call__(self, inputs, *args, **kwargs):
        """Computes the logits of features, or of texts in the forms that `predict` takes."""
        if isinstance(inputs, dict):
            inputs = complete(inputs, self.tokenizer.pad_id, self.feature_names, self.config)
        elif not isinstance(inputs, keras.KerasTensor):
            rows, _ = self.rows(self.as_texts(inputs))
            if not rows.num_texts:
                raise InputError("there are no texts.")
            inputs = rows.features(tf.range(rows.num_texts, dtype=tf.int64))
        return super().__call__(inputs, *args, **kwargs)


class _StartOfData(keras.callbacks.Callback):
    """Sets the first batch of an infinite dataset when the first epoch of a run begins."""

    def __init__(self, first_batch, steps_per_epoch):
        super().__init__()
        self._first_batch = first_batch
        self._steps_per_epoch = steps_per_epoch
        self._has_begun = False

    def on_epoch_begin(self, epoch, logs=None):
        if not self._has_begun:
            self._first_batch.assign(epoch * self._steps_per_epoch)
            self._has_begun = True


def _with(callback, callbacks):
    """Adds a callback to the callbacks of `fit`."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    return [*keras.tree.flatten(callbacks or []), callback]


def _num_rows(x):
    return len(next(iter(x.values())) if isinstance(x, dict) else x) or 1
