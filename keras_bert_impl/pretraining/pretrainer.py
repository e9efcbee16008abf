"""The pre-training model: an encoder with the heads of its objectives."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.cards import write_card
from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    has_class,
    huggingface_config,
    open_model,
    read_encoder_config,
    replace_model_directory,
    tensor_prefix,
    tied_tensors,
    write_model_directory,
)
from keras_bert_impl.checkpoints.interop.layouts import layout_of
from keras_bert_impl.layers.heads import VocabularyLogits, factored_logits
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import check_sees_both_sides
from keras_bert_impl.models.weights import (
    check_tied,
    deserialize_parts,
    frozen,
    load_weights,
    no_hdf5,
    set_frozen,
    tensors_of,
    values_deferred,
)
from keras_bert_impl.pretraining.objectives import as_objectives
from keras_bert_impl.pretraining.objectives.base import (
    ENCODER_FEATURES,
    PretrainingObjective,
    Tensors,
)
from keras_bert_impl.training.runs.reports import encoder_flops
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.internals import track_loss

if TYPE_CHECKING:
    from keras_bert_impl.tokenizers import Tokenizer  # imports TensorFlow


@keras.saving.register_keras_serializable("keras_bert_impl")
@no_hdf5
class Pretrainer(ReplicatedTrainer, keras.Model):
    """An encoder with one or more pre-training objectives.

    Each objective has the mean loss over its labeled positions (such as masked tokens or segment
    pairs) in the global batch. The total loss is the weighted sum over the objectives. In packed
    rows, every `[CLS]` has the label of its segment pair.

    Args:
        objectives: objectives or their names, such as `["masked_lm", "next_sentence"]`.

    Raises:
        InputError: Objectives are unknown or incompatible, or an objective requires a head that the
            file format of the encoder's family cannot express.

    Call arguments:
        features: dict of int32 tensors from `pretraining_dataset`: `token_ids`, `segment_ids`,
            `position_ids`, `example_ids` `[batch, length]`, and the other features that the
            objectives require.

    Returns:
        dict from objective name to float32 logits.

    Example:
        from keras_bert_impl.pretraining import pretraining_dataset
        pretrainer = Pretrainer(Encoder(config), ["masked_lm", "next_sentence"])
        pretrainer.compile(AdamW(1e-4))
        pretrainer.fit(pretraining_dataset("records", batch_size=32), steps_per_epoch=100)
    """

    pipeline_tag = "fill-mask"  # task name on the Hugging Face hub

    def __init__(
        self,
        encoder: Encoder,
        objectives: Iterable[PretrainingObjective | str],
        name: str = "pretrainer",
        **kwargs: Any,
    ) -> None:
        objectives = as_objectives(objectives)
        for objective in objectives:
            if objective.needs_both_sides:
                check_sees_both_sides(encoder.config, objective.name)

        # === Functional model ===
        features = [name for objective in objectives for name in objective.features]
        names = dict.fromkeys([*ENCODER_FEATURES, *features])
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        encoder_inputs = inputs
        outputs: Tensors = {}
        for objective in objectives:
            encoder_inputs, extra_outputs = objective.prepare(encoder, encoder_inputs)
            outputs |= extra_outputs
        details = dict.fromkeys(name for objective in objectives for name in objective.details)
        detailed = encoder.with_outputs(*details) if details else encoder
        encoded = detailed({name: encoder_inputs[name] for name in ENCODER_FEATURES})
        for objective in objectives:
            outputs |= objective.connect(encoder, encoded, encoder_inputs)
        super().__init__(inputs=inputs, outputs=outputs, name=name, **kwargs)

        # === Config ===
        self.encoder = encoder
        self.objectives = objectives
        self._list_head_tensors()  # This raises before training if the model cannot be saved.

    def compile(  # type: ignore[override]  # the losses come from the objectives
        self,
        optimizer: keras.optimizers.Optimizer,
        weighted_metrics: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Configures training as in Keras. The objectives define the losses.

        `weighted_metrics` is a dict from output names to metrics. The default is the loss and
        accuracy of each objective.

        Raises:
            InputError: A loss or loss weights were passed, or metrics are not a dict keyed by
                output.
        """
        for argument in ("loss", "loss_weights"):
            if kwargs.get(argument):
                raise InputError(
                    f"leave out {argument}: the objectives define the losses, such as "
                    "MaskedLM(weight=1.0)."
                )
        for metrics in (weighted_metrics, kwargs.get("metrics")):
            if metrics and not isinstance(metrics, dict):
                outputs = [name for objective in self.objectives for name in objective.output_names]
                raise InputError(f"metrics must be a dict keyed by output: {listed(outputs)}.")
        original_metrics = weighted_metrics
        if weighted_metrics is None:
            weighted_metrics = {
                output: [
                    _OutputMean(objective, output, values, self._name_metric(output, name))
                    for name, values in (("loss", "losses"), ("accuracy", "hits"))
                    if name == "loss" or output not in objective.without_accuracy
                ]
                for objective in self.objectives
                for output in objective.output_names
            }
        super().compile(optimizer, weighted_metrics=weighted_metrics, **kwargs)
        # Keras is loading a `.keras` file.
        self._compiled.arguments["weighted_metrics"] = original_metrics

    def _name_metric(self, output, name):
        # Keras adds the output's name as a prefix only if there are several outputs.
        outputs = [output for objective in self.objectives for output in objective.output_names]
        return name if len(outputs) > 1 else f"{output}_{name}"

    def train_step(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self.compile_arguments()
        # These metrics may read the logits.
        if arguments.get("metrics") or arguments.get("weighted_metrics"):
            return super().train_step(*args, **kwargs)
        with factored_logits():
            return super().train_step(*args, **kwargs)

    def loss_totals(self, x: Tensors, y: Tensors, sample_weight: Tensors) -> Tensors:
        return {
            output: ops.sum(weights)
            for objective in self.objectives
            for output, weights in objective.weights(x, sample_weight).items()
        }

    def _record_loss(self, loss, batch):
        # The mean is over labels, because the last batch of held-out rows is padded with empty
        # rows.
        track_loss(self, loss, sum(self.loss_totals(*batch).values()))

    def loss_share(
        self, x: Tensors, y: Tensors, y_pred: Tensors, sample_weight: Tensors, totals: Tensors
    ) -> Any:
        share = 0.0
        for objective in self.objectives:
            labels = objective.labels(x, y, y_pred)
            weights = objective.weights(x, sample_weight)
            for output, factor in objective.factors().items():
                if isinstance(y_pred[output], VocabularyLogits):
                    from keras_bert_impl.layers.vocabulary_loss import vocabulary_scores

                    # The losses replace the logits, so the metrics can read them.
                    y_pred[output] = vocabulary_scores(labels[output], y_pred[output])
                losses = objective.losses(output, labels[output], y_pred[output])
                total = ops.sum(losses * weights[output]) / ops.maximum(totals[output], 1.0)
                share += factor * total
        return share

    def compute_metrics(
        self, x: Tensors, y: Tensors, y_pred: Tensors, sample_weight: Tensors | None = None
    ) -> dict[str, Any]:
        labels: Tensors = {}
        weights: Tensors = {}
        for objective in self.objectives:
            labels |= objective.labels(x, y, y_pred)
            weights |= objective.weights(x, sample_weight)
        logits = {output: y_pred[output] for output in labels}
        return super().compute_metrics(x, labels, logits, weights)

    def flops(self, length: int, predictions: float = 0.15) -> float:
        """Returns the number of FLOPs per token in a forward pass. Padding is not counted.

        Only matrix products are counted. See `training.runs.flops.encoder_flops`.

        Args:
            length: Sequence length in tokens.
            predictions: Fraction of tokens that are masked.
        """
        config = self.encoder.config
        heads = [objective.flops(config, length, predictions) for objective in self.objectives]
        return float(encoder_flops(config, length) + sum(heads))

    # The optimizer would warn about a pooler that no objective trains. Keras reads
    # `trainable_variables` before training and `trainable_weights` after training.
    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return self._drop_unused(super().trainable_variables)

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        return self._drop_unused(super().trainable_weights)

    def _drop_unused(self, variables):
        pooler = self.encoder.pooler
        if not pooler or any(objective.uses_pooler for objective in self.objectives):
            return variables
        unused = {id(variable) for variable in pooler.variables}
        return [variable for variable in variables if id(variable) not in unused]

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            "encoder": serialize(self.encoder),
            "objectives": serialize(list(self.objectives)),
            "name": self.name,
            "frozen": frozen(self),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Pretrainer:
        config = dict(config)
        state = config.pop("frozen", None)
        names = ("encoder", "objectives")
        pretrainer = cls(**deserialize_parts(config, *names, custom_objects=custom_objects))
        set_frozen(pretrainer, state)
        return pretrainer

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        objectives: Iterable[PretrainingObjective | str],
        dtype: Any = None,
        **overrides: Any,
    ) -> Pretrainer:
        """Loads a pre-trainer from a model directory, to continue pre-training.

        Args:
            name_or_path: Model directory or name; see `interop.open_model`. Heads that the
                checkpoint lacks are newly initialized.
            **overrides: `EncoderConfig` fields to change, such as `dropout=0.0`.

        Raises:
            InputError: A file or tensor is missing, damaged or has the wrong shape; the message
                names it.
        """
        source = open_model(name_or_path)
        config = read_encoder_config(source)
        trained = [
            objective.of_directory(source.path, **overrides)
            for objective in as_objectives(objectives)
        ]
        changed = dataclasses.replace(config, **overrides)
        if layout_of(changed) is not layout_of(config):
            raise InputError(
                f"{source.path}: its weights cannot be loaded with causal={changed.causal}, "
                f"because a {config.architecture} with this setting has different tensors. To "
                "start with newly initialized weights, pass its config.json."
            )
        is_kept = "use_pooler" in overrides or _has_pooler(source, config)
        if not is_kept and not any(objective.uses_pooler for objective in trained):
            changed = dataclasses.replace(changed, use_pooler=False)  # untrained
        with values_deferred():
            encoder = Encoder(changed, dtype)
            pretrainer = cls(encoder, trained)
        check_tied(source, tied_tensors(config))
        for objective in pretrainer.objectives:
            objective.load(pretrainer, source.path)
        tensors = encoder_tensors(encoder.config) + pretrainer._list_head_tensors()
        load_weights(pretrainer, source, tensors)
        return pretrainer

    def save_pretrained(self, directory: str | Path, tokenizer: Tokenizer | None = None) -> None:
        """Writes a model directory, with the heads, for `from_pretrained` and `transformers`.

        If `transformers` has no class for a head, the tensors of the head have names that only this
        package reads. Existing files with the same names are replaced. If a tokenizer is given, it
        is also written.
        """
        config = self.encoder.config
        heads = [
            objective.head
            for objective in self.objectives
            if objective.head and has_class(config, objective.head)
        ]
        head = "pretraining" if len(heads) > 1 else next(iter(heads), None)
        tensors = tensors_of(self, encoder_tensors(config), prefix=tensor_prefix(config))
        tensors |= tensors_of(self, self._list_head_tensors())
        with replace_model_directory(directory) as temporary:
            write_model_directory(temporary, huggingface_config(config, head), tensors)
            for objective in self.objectives:
                objective.save(self, temporary)
            if tokenizer is not None:
                tokenizer.save_pretrained(temporary, config)
            write_card(self, temporary, directory)

    def _list_head_tensors(self):
        config = self.encoder.config
        return [name for objective in self.objectives for name in objective.tensors(config)]


def _has_pooler(source, config):
    names = [name for name in encoder_tensors(config) if name.variable.startswith("pooler/")]
    return any(source.shape(name.tensor) is not None for name in names)


@keras.saving.register_keras_serializable("keras_bert_impl")
class _OutputMean(keras.metrics.MeanMetricWrapper):
    """Mean loss or accuracy of one output of an objective. Ignores positions without a label."""

    def __init__(
        self, objective: PretrainingObjective, output: str, values: str, name: str
    ) -> None:
        self._config = {"objective": objective, "output": output, "values": values, "name": name}
        super().__init__(functools.partial(getattr(objective, values), output), name=name)
        self._direction = "down" if values == "losses" else "up"  # Keras's callbacks read it

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return self._config | {"objective": serialize(self._config["objective"])}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> _OutputMean:
        return cls(**deserialize_parts(config, "objective"))
