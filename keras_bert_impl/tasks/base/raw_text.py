"""`RawTextTrainer`: `fit`, `evaluate` and `predict` on strings."""

import warnings
from collections.abc import Callable
from typing import Annotated, Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches import batching
from keras_bert_impl.data.tables import user_input
from keras_bert_impl.data.tables.label_checks import weighted
from keras_bert_impl.data.tables.label_codec import LabelCodec
from keras_bert_impl.data.tables.labels import MULTI
from keras_bert_impl.models.encoder_layers import check_call
from keras_bert_impl.tasks.base import user_data
from keras_bert_impl.tasks.base.compile_arguments import check_arguments, check_backend
from keras_bert_impl.tasks.base.feature_rows import are_symbolic_texts
from keras_bert_impl.tasks.base.fitting import (
    FitSizes,
    check_frozen_layers,
    fit_arguments,
    predict,
    predict_list,
    trace_for_any_shape,
)
from keras_bert_impl.tasks.base.keras_losses import Outputs, TaskLoss, TaskMetric, task_metrics
from keras_bert_impl.tasks.base.long_texts import LongTexts
from keras_bert_impl.training.optimizers.adamw import default_optimizer
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import KnownArguments, known_arguments
from keras_bert_impl.utils.internals import all_layers
from keras_bert_impl.utils.one_graph import readable_errors
from keras_bert_impl.utils.settings import OneOf, check


class RawTextTrainer(KnownArguments, ReplicatedTrainer):
    """Mixin for training and prediction on strings. List it before `keras.Model` in the bases.

    The network takes `FEATURES`, int32 `[batch, length]`. `fit`, `evaluate` and `predict` take

    - texts: a list, array or column of str; labels are a separate argument;
    - text pairs: a list of (first, second) tuples, or a tuple of two lists;
    - a table with one column of texts, or two columns for pairs; see `user_input.from_columns`;
    - a dict of features as numpy arrays or tensors;
    - a generator or `keras.utils.PyDataset` of batches `(x, labels)` or
      `(x, labels, sample_weight)`, where x is one of these; a generator requires `steps_per_epoch`;
    - a `tf.data.Dataset` of such batches, where x is a string tensor `[batch]`, a tuple of two
      string tensors, or a dict of features.

    Texts are tokenized once and, unless `LongTexts` is set, truncated to `max_length` tokens,
    starting with the longer segment. Random choices depend only on the seed and the epoch.

    Subclasses set `tokenizer` and `max_length`. They override `label_codec` for their labels, and
    `outputs_are`, `default_loss`, `default_metrics`, `named_metrics` and `scores` for their loss.
    """

    has_several_rows = False  # whether a text may have several rows
    needs_labels = True  # whether the loss uses labels
    draws_labels = False  # whether `completed` creates the labels
    has_token_labels = False  # whether each token has a label
    text_rank = 1  # rank of the string tensors in a dataset; 1 is [batch]
    text_columns: tuple[str, ...] = ()  # see `user_input.from_columns`
    most_columns = 2
    long_texts = LongTexts()
    long_part = "second"  # text of a pair to which `LongTexts` applies
    block_texts: int | None = None  # block size of `predict`; None for the default of `blocks`
    block_characters: int | None = None
    is_quantized = False
    outputs_function: Callable | None = None  # the compiled `fitting.outputs_of_batch`
    outputs_are = Outputs()  # meaning of the logits, for Keras losses and metrics

    # === Labels and objective, for subclasses ===

    @property
    def label_codec(self) -> LabelCodec:
        """The `LabelCodec` that checks labels and converts them for the loss."""
        return LabelCodec()

    def check_labels(self, labels: Any, features: dict[str, Any], sample_weight: Any) -> None:
        """Raises `InputError` if labels do not match a dict of features."""

    def class_factors(self, class_weight: Any, labels: Any) -> list[float]:
        """Returns the loss weight of each class."""
        if self.label_codec.has_classes:
            return self.label_codec.factors(class_weight, labels)
        raise InputError(
            f"class_weight requires classes as labels, which a {type(self).__name__} does not "
            "have. Use sample_weight, a number for each example."
        )

    def default_loss(self) -> keras.losses.Loss | None:
        """Returns the default loss of `compile`: cross-entropy over classes."""
        return TaskLoss("sparse_categorical_crossentropy", self.outputs_are)

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Returns the default metrics of `compile`: accuracy over classes."""
        is_multi = self.outputs_are.problem_type == MULTI
        return [TaskMetric("binary_accuracy" if is_multi else "accuracy", self.outputs_are)]

    def named_metrics(self) -> dict[str, Callable[[], Any]]:
        """Returns {metric name: function that creates the metric}."""
        return {}

    # === Tokenization ===

    def as_texts(self, x: Any) -> list:
        """Converts user input to a list of texts for `rows`."""
        return self.checked_texts(user_input.from_columns(x, self.text_columns, self.most_columns))

    def checked_texts(self, x: Any) -> list:
        """Converts user input other than tables to a list of texts; see `as_texts`."""
        return user_input.checked_list(x)

    def pack(self, texts: Any) -> dict[str, tf.Tensor]:
        """Computes the features of texts, one row per text; works in eager mode and in graphs."""
        return self.long_texts.pack(self, texts)

    def tokenized(self, texts: list) -> Any:
        """Tokenizes texts or pairs; returns `GroupedTexts` if texts are split into windows."""
        return self.long_texts.tokenize(self, texts)

    def rows(self, texts: list, labels: Any = None, weights: Any = None) -> tuple[Any, tuple]:
        """Tokenizes texts. A row is one input sequence of the network.

        Args:
            texts, labels, weights: return values of `as_texts` and `label_codec`; weights are
                float32 [texts].

        Returns:
            The tokenized texts, and a tuple of the labels and weights, [rows, ...], without None.
        """
        targets = tuple(target for target in (labels, weights) if target is not None)
        return self.tokenized(texts), targets

    def joined(self, outputs: Any, texts: list, tokenized: Any) -> Any:
        """Converts the scores of rows, [rows, ...], to the return value of `predict`.

        Args:
            texts, tokenized: return values of `as_texts` and `rows`.
        """
        return outputs

    def completed(
        self, batches: tf.data.Dataset, first_batch: tf.Variable | None = None
    ) -> tf.data.Dataset:
        """Adds random features or targets to batches, such as masked tokens.

        Args:
            batches: batches of `(features, *targets)`.
            first_batch: index of the first training batch, which determines the random values.
                None for evaluation, with the same random values in every call.
        """
        return batches

    def completed_dataset(self, dataset: tf.data.Dataset, is_training: bool) -> tf.data.Dataset:
        """Same as `completed`, for a dataset that the user passes to `fit` or `evaluate`."""
        return dataset

    def text_features(self, texts: Any) -> dict[str, tf.Tensor]:
        """Computes the features of a string tensor, or a tuple of two for pairs; works in graphs."""
        return self.long_texts.features(self, texts)

    def features_in_graph(self, texts: Any) -> dict[str, tf.Tensor]:
        """Computes the features of examples in datasets and exported models."""
        return self.text_features(texts)

    def widths(self, longest: int | None = None) -> list[int]:
        """Returns the lengths to which batches are padded."""
        return batching.widths(self, longest or self.max_length)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the network's input features."""
        return tuple(self.input)

    def steps_per_epoch(self, x: Any, batch_size: int) -> int:
        """Returns the number of batches per epoch."""
        return batching.num_batches(self.rows(self.as_texts(x))[0], batch_size)

    # === Keras ===

    @known_arguments("TaskModel.compile")
    def compile(
        self,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        learning_rate: float | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        """Configures training as in Keras, with the task's defaults; `fit` calls it if needed.

        The network returns logits. A Keras loss or metric (a name or an object) receives the
        probabilities that `predict` returns; with `from_logits=True`, it receives the logits.
        Labels are converted to class indices or one-hot rows, as the loss or metric requires. A
        user-defined function or class receives the labels and the probabilities. For two classes,
        metrics such as `AUC`, `Precision` and `Recall` use the second class as the positive class,
        as in scikit-learn.

        Args:
            optimizer: Keras optimizer. Default: AdamW with 10% warm-up, linear decay to 0 and
                gradient clipping to a global norm of 1.0. Each call of `fit` without
                `initial_epoch` restarts the default optimizer.
            loss: Keras loss. Default: the task's cross-entropy; squared error for regression.
            metrics: Keras metrics. Default: accuracy; absolute error for regression; `[]` for none.
                Also accepts the task's scores by name, such as `"macro_f1"`.
            learning_rate: peak learning rate of the default optimizer. Default: 3e-5, 3e-4 for taggers
                with a hidden dimension of at most 384, or the default for the kind of adapter.
            seed: determines the order of the texts and the dropout masks.
            **kwargs: arguments of `ReplicatedTrainer.compile` and `keras.Model.compile`:
                `accumulation_steps`, `objective`, `steps_per_execution`, `jit_compile`, ...

        Raises:
            InputError: the task does not support a loss or metric.
        """
        check_backend()
        check_arguments(optimizer, learning_rate, seed, kwargs)
        arguments = {
            "optimizer": optimizer,
            "loss": loss,
            "learning_rate": learning_rate,
            "seed": seed,
        }
        arguments |= {"metrics": metrics, "weighted_metrics": weighted_metrics, **kwargs}
        rate = self.default_learning_rate if learning_rate is None else learning_rate
        names = self.named_metrics(), self.outputs_are
        with self.distribute_strategy.scope():
            if optimizer is None:
                optimizer = default_optimizer(None, rate, rates=self.default_rates)
            super().compile(
                optimizer,
                loss=self.default_loss() if loss is None else TaskLoss(loss, self.outputs_are),
                metrics=self.default_metrics()
                if metrics is None
                else task_metrics(metrics, *names),
                weighted_metrics=task_metrics(weighted_metrics, *names),
                dropout_seed=seed,
                **kwargs,
            )
        self._compiled.arguments = arguments

    def compile_if_needed(self) -> None:
        """Compiles the model with default arguments if it is not compiled."""
        if not self.compiled:
            self.compile()

    @property
    def uses_default_optimizer(self) -> bool:
        """Whether the model is compiled with the default optimizer."""
        return self.compile_arguments().get("optimizer") is None

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int | str = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> keras.callbacks.History:
        """Trains the model as in Keras; x may be raw texts.

        With `initial_epoch` or `BackupAndRestore`, training continues like uninterrupted training:
        with the same batches, optimizer state and learning rates. The state is in `.keras` files,
        and in `.weights.h5` files that a compiled model loads. Without `initial_epoch`, the default
        optimizer starts again.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            class_weight: dict of label name or class index -> loss weight (default 1); a list with
                the weight of each class; or `"balanced"`, which gives each class the weight
                texts / (classes * texts of the class). Class weights are multiplied by
                `sample_weight`.
            Other arguments: see `keras.Model.fit`.
        """
        if self.is_quantized:
            raise quantized_error("trained")
        if initial_epoch and not self.compiled:
            warnings.warn(
                f"initial_epoch={initial_epoch}, but the model has no optimizer state, so the "
                "moments and the learning rate start again. To continue a run, load a .keras file, "
                "or call compile() before load_weights.",
                stacklevel=2,
            )
        self.compile_if_needed()
        self._check_objective()
        steps = steps_per_epoch, validation_steps, validation_batch_size, validation_freq
        sizes = FitSizes(batch_size, epochs, initial_epoch, validation_split, *steps)
        self._initial_epoch = None  # `BackupAndRestore` does not reset it
        arguments = fit_arguments(
            self, x, y, sample_weight, class_weight, validation_data, shuffle, callbacks, sizes
        )
        with readable_errors(), self._prepare_fit(arguments) as arguments:
            return super(ReplicatedTrainer, self).fit(verbose=verbose, **arguments)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int | str = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Computes loss and metrics as in Keras; x may be raw texts.

        Args:
            x, y: see `RawTextTrainer`. The default batch size is 32.
            steps: number of batches to evaluate, starting with the first. Default: all.
        """
        self.compile_if_needed()
        if not kwargs.get("_use_cached_eval_dataset"):  # Keras sets it inside `fit`
            batch_size, steps = user_data.checked_sizes(batch_size, steps)
            user_data.check_ends(x, steps, "steps")
            x = user_data.read(self, x, y, sample_weight)
            if isinstance(x, user_data.CheckedExamples):
                x, steps = x.for_evaluation(self, batch_size, steps), None
        with readable_errors():
            return super().evaluate(x, verbose=verbose, steps=steps, **kwargs)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: int | str = "auto",
        steps: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Returns predictions, such as probabilities, as NumPy arrays in the order of the texts.

        To limit memory, texts are processed in blocks of 1,024 texts or 1,048,576 characters.

        Args:
            x: see `RawTextTrainer`; labels in a dataset are ignored.
            batch_size: maximum number of texts per batch. Default: 32. On a CPU, batches may be
                smaller to reduce padding.
            steps: number of batches to predict, each with `batch_size` texts. Default: all.
        """
        check_backend()
        batch_size, steps = user_data.checked_sizes(batch_size, steps)
        user_data.check_ends(x, steps, "steps")
        with readable_errors():
            return predict(self, x, batch_size, steps, verbose=verbose, **kwargs)

    def predict_features(self, data: tf.data.Dataset | list[tuple], **kwargs: Any) -> Any:
        """Predicts batches of features, and concatenates the predictions."""
        if isinstance(data, list):
            return predict_list(self, data, **kwargs)
        trace_for_any_shape(self, data.element_spec)
        return super().predict(data, **kwargs)

    def predict_batches(self, data: tf.data.Dataset | list[tuple], **kwargs: Any) -> Any:
        """Same as `predict_features`, for tokenized texts."""
        return self.predict_features(data, **kwargs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Runs one training step on one batch; requires an explicit optimizer."""
        if self.uses_default_optimizer:
            raise InputError(
                "the default learning rate depends on the number of steps, which is unknown. "
                "Call compile(optimizer=AdamW(3e-5)) first."
            )
        self._check_objective()
        check_frozen_layers(self)
        x, y, sample_weight = user_data.one_batch(self, x, y, sample_weight)
        if class_weight is not None:
            factors = self.class_factors(class_weight, np.asarray(y))
            sample_weight = np.asarray(weighted(y, sample_weight, factors))
        return super().train_on_batch(x, y, sample_weight, return_dict=return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Computes loss and metrics on one batch, as in Keras; x may be raw texts."""
        self.compile_if_needed()
        return super().test_on_batch(*user_data.one_batch(self, x, y, sample_weight), return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Same as `predict`, without a progress bar."""
        return self.predict(x, verbose=0)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes the logits of features or texts."""
        check_call(kwargs)
        if isinstance(inputs, dict):
            inputs = user_data.completed_features(self, inputs)
        elif are_symbolic_texts(self, inputs):
            inputs = self.features_in_graph(inputs)
        elif not isinstance(inputs, keras.KerasTensor):
            rows, _ = self.rows(self.as_texts(inputs))
            if not rows.num_texts:
                raise InputError("there are no texts.")
            inputs = rows.features(tf.range(rows.num_texts, dtype=tf.int64))
        return super().__call__(inputs, *args, **kwargs)

    def quantize(self, mode: str = "int8", config: Any = None) -> None:
        """Quantizes the weights of all dense layers in place, like Keras's `quantize`.

        A quantized model cannot be trained or saved. The mode is `"int8"` or `"int4"`.

        Raises:
            InputError: the mode is unknown, or the model has an adapter or computes in float16.
        """
        check("mode", mode, Annotated[str, OneOf("int8", "int4")])
        if self.encoder.compute_dtype == "float16":
            raise InputError("a model in float16 cannot be quantized. Load it in float32.")
        if self.encoder.config.adapter is not None:
            line = "merge LoRA with save_pretrained(directory), then load that directory."
            raise InputError(f"a model with an adapter cannot be quantized: {line}")
        for layer in all_layers(self):
            if isinstance(layer, keras.layers.Dense):
                layer.quantize(mode, type_check=False, config=config)
        self.is_quantized = True
        self.train_function = self.test_function = None
        self.predict_function = self.outputs_function = None


def quantized_error(what: str) -> InputError:
    return InputError(
        f"a quantized model cannot be {what}. Call export(directory), or quantize a copy."
    )
