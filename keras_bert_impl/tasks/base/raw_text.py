"""`RawTextTrainer`: `fit`, `evaluate` and `predict` on strings, of a network that takes ids."""

import functools
from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.first_guesses import known_arguments
from keras_bert_impl.io.errors import InputError, listed
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskLoss, TaskMetric, as_list
from keras_bert_impl.tasks.base.score_metrics import SCORES, ScoreMetric
from keras_bert_impl.tasks.inputs import batching, streams
from keras_bert_impl.tasks.inputs.blocks import blocks, in_blocks
from keras_bert_impl.tasks.inputs.feature_rows import FeatureRows, complete
from keras_bert_impl.tasks.inputs.raw_text_data import RawTextData
from keras_bert_impl.tasks.inputs.text_datasets import encode_dataset
from keras_bert_impl.training.optimizers.adamw import default_optimizer
from keras_bert_impl.training.optimizers.run_schedule import restart
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer


class RawTextTrainer(RawTextData, ReplicatedTrainer):
    """Mixin in front of `keras.Model`: raw strings in, scores out.

    The network takes int32 `[batch, length]` `FEATURES`. `fit`, `evaluate` and `predict` take

    - texts: a list, array or column of str, of (first, second) tuples for pairs of segments, or a
      tuple of two such lists, the first and the second segments; and labels beside them;
    - a table with one column of texts, or two for pairs, see `inputs.from_columns`;
    - a generator or `keras.utils.PyDataset` of batches `(x, labels)` or
      `(x, labels, sample_weight)`, where x is one of these; a generator needs `steps_per_epoch`;
    - a dict of features as numpy arrays or tensors;
    - a `tf.data.Dataset` of batches `(x, labels)` or `(x, labels, sample_weight)`, where x is a
      string tensor `[batch]`, a tuple of two, or a dict of features.

    Texts are cut to `max_length` tokens, the longer segment first. They are tokenized once, and
    batches hold texts of about one length; what is drawn depends on `(seed, epoch)` alone.

    A class that uses it says what labels are, see `RawTextData`, and what is learned from them:
    `outputs_are`, `default_loss`, `default_metrics`, `named_metrics`, `scores`.
    """

    default_learning_rate = 3e-5
    default_rates = ()  # factors of it for some weights, see `AdamW`
    block_texts = block_characters = None  # of `predict`, see `blocks`; None for its defaults
    outputs_are = Outputs()  # what the logits stand for, for losses and metrics of Keras
    _given = SimpleNamespace(arguments={})  # to `compile`

    # === What a subclass says ===

    def default_loss(self):
        """The loss where `compile` is given none."""
        raise NotImplementedError

    def default_metrics(self):
        """List of metrics where `compile` is given none."""
        raise NotImplementedError

    def named_metrics(self):
        """dict of the task's scores that `compile(metrics=...)` takes by name: name -> function
        that makes the metric."""
        return {}

    def scores(self, outputs):
        """What `predict` returns of the network's outputs."""
        return outputs

    # === Keras ===

    @known_arguments("TaskModel.compile")
    def compile(
        self,
        optimizer=None,
        loss=None,
        metrics=None,
        weighted_metrics=None,
        learning_rate=None,
        seed=0,
        **kwargs,
    ):
        """Configures training as in Keras, with defaults of the task; `fit` calls it if you do not.

        The network returns logits. A loss or a metric of Keras, by name or as an object, is given
        what it expects: the probabilities that `predict` returns, or the logits where it has
        `from_logits=True`; class numbers or one-hot rows, whichever the labels are. A function or
        class of your own is given the labels and the probabilities. Of two classes metrics such
        as `AUC`, `Precision` and `Recall` count the second one, as scikit-learn does.

        Args:
            optimizer: default: AdamW over the steps of each `fit`, with 10 % warm-up, linear decay
                to 0 and clipping by a global norm of 1.0. Each `fit` starts it anew.
            loss: default: the cross-entropy of the task; of a regression the squared error.
            metrics: list. Default: accuracy; of a regression the absolute error; `[]` for none.
                Beside Keras's the task's own scores by name, such as `"macro_f1"`, `"matthews"`,
                `"entity_f1"` or `"exact_match"`.
            weighted_metrics: list, as in Keras.
            learning_rate: float. The highest of the default optimizer. Default 3e-5, or what the
                kind of adapter learns with.
            seed: int. Decides the order of the texts and the units that dropout drops.
            **kwargs: arguments of `ReplicatedTrainer.compile` and `keras.Model.compile`:
                `accumulation_steps`, `objective`, `steps_per_execution`, `jit_compile`, ...

        Raises:
            InputError: a loss or metric that cannot be computed for the task; the message has the
                line to write.
        """
        _check_backend()
        given = {
            "optimizer": optimizer,
            "loss": loss,
            "metrics": metrics,
            "weighted_metrics": weighted_metrics,
            "learning_rate": learning_rate,
            "seed": seed,
            **kwargs,
        }
        if optimizer is not None and learning_rate is not None:
            raise InputError("give an optimizer, or the learning_rate of the default one.")
        with self.distribute_strategy.scope():
            super().compile(
                self._default_optimizer(learning_rate) if optimizer is None else optimizer,
                loss=self.default_loss() if loss is None else TaskLoss(loss, self.outputs_are),
                metrics=self.default_metrics() if metrics is None else self._task_metrics(metrics),
                weighted_metrics=self._task_metrics(weighted_metrics),
                dropout_seed=seed,
                **kwargs,
            )
        # In a namespace, where Keras does not look for metrics of the model.
        variables = [id(variable) for variable in self.trainable_variables]
        self._given = SimpleNamespace(arguments=given, variables=variables)

    def _task_metrics(self, metrics):
        """The metrics of a list as a user gives it, of the network's outputs."""
        named = self.named_metrics()
        return [self._task_metric(metric, named) for metric in as_list(metrics)]

    def _task_metric(self, metric, named):
        if isinstance(metric, ScoreMetric):
            return metric
        if isinstance(metric, str) and metric in named:
            return named[metric]()
        if isinstance(metric, str) and metric in SCORES:
            raise InputError(
                f"{metric!r} is not a score of this model; it has {listed(named) or 'none by name'}."
            )
        return TaskMetric(metric, self.outputs_are)

    def compile_arguments(self):
        return self._given.arguments

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
        """Trains; everything is as in Keras, and x may be raw texts.

        A run that goes on, with `initial_epoch` or by `keras.callbacks.BackupAndRestore`, meets the
        batches that it would have met.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            **kwargs: the other arguments of `keras.Model.fit`.

        Returns:
            `keras.callbacks.History`.
        """
        self._check_not_quantized("does not train")
        self._compile_if_needed()
        self._check_objective()
        batch_size = _positive("batch_size", batch_size, 32)
        validation_batch_size = _positive(
            "validation_batch_size", validation_batch_size, batch_size
        )
        steps_per_epoch = _positive("steps_per_epoch", steps_per_epoch, None)
        self._initial_epoch = None  # BackupAndRestore of an earlier fit leaves it behind
        first_batch = tf.Variable(0, trainable=False, dtype=tf.int64)
        x = self._read(x, shuffle)
        if isinstance(x, tf.data.Dataset):
            x = encode_dataset(self, x)
            # A repeating data set has no end.
            steps = steps_per_epoch or int(x.cardinality())
        else:
            examples = self._examples(x, y, sample_weight)
            if validation_split and validation_data is None:
                examples, held_out = batching.split(examples, validation_split)
                validation_data = self._sorted(held_out, validation_batch_size)
            rows, targets = self._rows(*examples)
            steps = steps_per_epoch or batching.num_batches(rows, batch_size)
            seed = self._given.arguments["seed"]
            x = batching.training_batches(rows, targets, batch_size, seed, shuffle, first_batch)
            x = self.completed(x, first_batch)
            steps_per_epoch = steps
        if validation_data is not None:
            validation_data = self._validation(validation_data, validation_batch_size)
        self._begin_run(steps * (epochs - initial_epoch))
        return super().fit(
            x,
            epochs=epochs,
            verbose=verbose,
            callbacks=_with(_StartOfData(first_batch, steps), callbacks),
            validation_data=validation_data,
            shuffle=False,  # the data set has its own order
            class_weight=class_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
        )

    def evaluate(
        self, x=None, y=None, batch_size=None, verbose="auto", sample_weight=None, **kwargs
    ):
        """Loss and metrics; everything is as in Keras, and x may be raw texts.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            **kwargs: the other arguments of `keras.Model.evaluate`.
        """
        self._compile_if_needed()
        if not kwargs.get("_use_cached_eval_dataset"):  # Keras, from inside `fit`
            x = self._read(x)
            data = x if isinstance(x, tf.data.Dataset) else (x, y, sample_weight)
            x = self._validation(data, _positive("batch_size", batch_size, 32))
        return super().evaluate(x, verbose=verbose, **kwargs)

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        """The scores of texts, in the order given.

        Args:
            x: texts or features, see the class; labels in a data set are passed over. The default
                batch size is 32. Texts are tokenized and predicted in blocks of 1,024 texts or
                1,048,576 characters, so that memory does not grow with their number but by the
                result.
            **kwargs: the other arguments of `keras.Model.predict`.

        Returns:
            What `scores` makes of the network's outputs, as numpy arrays.
        """
        _check_backend()
        batch_size = _positive("batch_size", batch_size, 32)
        kwargs["verbose"] = verbose
        if streams.gives_batches(x):
            each = functools.partial(RawTextTrainer.predict, self, batch_size=batch_size)
            labels, steps = getattr(self, "labels", ()), kwargs.pop("steps", None)
            batches = streams.text_batches(x, steps, labels)
            return streams.joined(each(texts, **kwargs) for texts in batches)
        x = self._read(x)
        if isinstance(x, tf.data.Dataset):
            return super().predict(encode_dataset(self, x, with_labels=False), **kwargs)
        if isinstance(x, dict):
            x = complete(x, self.tokenizer.pad_id, self.feature_names, self.config)
            rows, _ = self._rows(FeatureRows(x))
            return super().predict(batching.sorted_batches(rows, (), batch_size)[0], **kwargs)
        texts = self.as_texts(x)
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
        """The scores of all batches of a `tf.data.Dataset` of features, in one."""
        return super().predict(data, **kwargs)

    def predict_step(self, data):
        """The scores of a batch of one replica."""
        return self.scores(super().predict_step(data))

    def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None, return_dict=False):
        """One step on one batch, as in Keras; x may be raw texts.

        Raises:
            InputError: the default optimizer, whose learning rate depends on the number of steps.
        """
        if self._uses_default_optimizer:
            raise InputError(
                "the default learning rate depends on the number of steps, which train_on_batch "
                "does not know: write compile(optimizer=AdamW(3e-5)) first."
            )
        self._check_objective()
        x, y, sample_weight = self._one_batch(x, y, sample_weight)
        return super().train_on_batch(x, y, sample_weight, class_weight, return_dict)

    def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
        """Loss and metrics of one batch, as in Keras; x may be raw texts."""
        self._compile_if_needed()
        return super().test_on_batch(*self._one_batch(x, y, sample_weight), return_dict)

    def predict_on_batch(self, x):
        """The scores of one batch: `predict` with one batch of all that is given."""
        return self.predict(x, batch_size=_num_rows(x), verbose=0)

    def __call__(self, inputs, *args, **kwargs):
        """The logits of features, or of a list of texts."""
        if isinstance(inputs, (list, np.ndarray)) and len(inputs) and _is_text(inputs[0]):
            rows, _ = self.rows(self.as_texts(inputs))
            inputs = rows.features(tf.range(rows.num_texts, dtype=tf.int64))
        elif isinstance(inputs, dict):
            inputs = complete(inputs, self.tokenizer.pad_id, self.feature_names, self.config)
        return super().__call__(inputs, *args, **kwargs)

    def _compile_if_needed(self):
        if not self.compiled:
            self.compile()

    @property
    def _uses_default_optimizer(self):
        return self._given.arguments.get("optimizer") is None

    def _default_optimizer(self, learning_rate=None):
        rate = self.default_learning_rate if learning_rate is None else learning_rate
        return default_optimizer(None, rate, rates=self.default_rates)

    def _begin_run(self, total_steps):
        """Starts the default optimizer anew, with a learning rate over so many steps."""
        if not self._uses_default_optimizer:
            return
        if total_steps < 1:
            raise InputError(
                "the length of the data set is unknown, and the default learning rate depends on "
                "it; give steps_per_epoch, or compile with an optimizer."
            )
        if self._given.variables != [id(variable) for variable in self.trainable_variables]:
            self.compile(**self._given.arguments)  # layers were frozen or unfrozen since
        restart(self.optimizer, total_steps)


class _StartOfData(keras.callbacks.Callback):
    """Sets the batch that an endless data set begins with, from the first epoch of a run."""

    def __init__(self, first_batch, steps_per_epoch):
        super().__init__()
        self._first_batch = first_batch
        self._steps_per_epoch = steps_per_epoch
        self._has_begun = False

    def on_epoch_begin(self, epoch, logs=None):
        if not self._has_begun:
            self._first_batch.assign(epoch * self._steps_per_epoch)
            self._has_begun = True


def _check_backend():
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "tasks need the TensorFlow backend of Keras (KERAS_BACKEND=tensorflow). The encoder "
            "and its pre-training also run on JAX."
        )


def _with(callback, callbacks):
    """The callbacks of `fit`, with one more."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(callback)
        return callbacks
    callbacks = callbacks or []
    return [*(callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]), callback]


def _positive(name, value, default):
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be an int of at least 1. Received: {value!r}")
    return int(value)


def _num_rows(x):
    return len(next(iter(x.values())) if isinstance(x, dict) else x) or 1


def _is_text(value):
    return isinstance(value, (str, bytes)) or (
        isinstance(value, tuple) and len(value) > 1 and isinstance(value[0], (str, bytes))
    )
