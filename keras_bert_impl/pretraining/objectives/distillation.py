"""Distillation objectives: a student learns from a teacher's predictions and hidden states."""

import dataclasses
import os
import types
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    head_tensors,
    open_model,
    read_encoder_config,
    tied_tensors,
)
from keras_bert_impl.layers.losses import (
    check_layers,
    cosine_distance,
    kl_divergence,
    layer_errors,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import linear_map
from keras_bert_impl.models.weights import check_tied, load_weights, values_deferred
from keras_bert_impl.pretraining.objectives.base import (
    ENCODER_FEATURES,
    PretrainingObjective,
    Tensor,
    Tensors,
    masked_logits,
)
from keras_bert_impl.training.runs.reports import encoder_flops, vocabulary_flops
from keras_bert_impl.utils.errors import InputError


class _Distillation(PretrainingObjective):
    """Base class of the distillation objectives, with a frozen teacher."""

    def __init__(self, teacher: str | Path | None, dtype: Any) -> None:
        if teacher is None:
            raise InputError(f"{self.name} needs a teacher: a model directory or name.")
        self.teacher, self.dtype = os.fspath(teacher), dtype
        source = open_model(teacher)
        self._config = dataclasses.replace(
            read_encoder_config(source), dropout=0.0, attention_dropout=0.0, use_pooler=False
        )
        with values_deferred():
            encoder = Encoder(self._config, dtype)
            model, head = self._create_teacher(encoder)
        check_tied(source, tied_tensors(self._config))
        load_weights(model, source, encoder_tensors(self._config) + head)
        self._frozen = _Frozen(model, name=f"teacher_of_{self.name}")

    def _create_teacher(self, encoder):
        """Returns (teacher model, tensor names of the teacher's head)."""
        raise NotImplementedError

    def _check(self, student):
        teacher = self._config
        if student.vocabulary_size != teacher.vocabulary_size:
            raise InputError(
                "student and teacher must have the same vocabulary, but have "
                f"{student.vocabulary_size} and {teacher.vocabulary_size} tokens."
            )
        if student.max_length > teacher.max_length:
            raise InputError(
                f"the student's max_length of {student.max_length} must not exceed the teacher's, "
                f"{teacher.max_length}."
            )

    def losses(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        return super().losses(output, labels, logits) if output == "masked_lm" else logits

    def labels(self, features: Tensors, labels: Tensors, outputs: Tensors) -> Tensors:
        # These losses have no labels; the placeholders are not read.
        return {name: labels.get(name, outputs[name]) for name in self.output_names}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        # Reports multiply this value by three for the backward pass, which a teacher does not have.
        return encoder_flops(self._config, length) / 3

    def get_config(self) -> dict[str, Any]:
        return {"teacher": self.teacher, "dtype": self.dtype}


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class Distillation(_Distillation):
    """Masked language modeling plus distillation of a teacher's predictions and last hidden states.

    The student learns the teacher's predictions only at masked tokens, as with the option
    `--restrict_ce_to_mask` of the published command.

    Source: Sanh et al. 2019 (arXiv:1910.01108), sections 2 and 3; weights and temperature are from
    the published command (transformers, research_projects/distillation).
    """

    name = "distillation"
    needs_both_sides = True
    head = "masked_lm"
    features = ("masked_positions",)
    without_accuracy = ("distilled_words", "distilled_states")

    def __init__(
        self,
        teacher: str | Path | None = None,
        word_weight: float = 5.0,
        masked_lm_weight: float = 2.0,
        state_weight: float = 1.0,
        temperature: float = 2.0,
        dtype: Any = None,
    ) -> None:
        super().__init__(teacher, dtype)
        self.word_weight = word_weight
        self.masked_lm_weight = masked_lm_weight
        self.state_weight = state_weight
        self.temperature = temperature

    def factors(self) -> dict[str, float]:
        return {
            "masked_lm": self.masked_lm_weight,
            "distilled_words": self.word_weight,
            "distilled_states": self.state_weight,
        }

    def _create_teacher(self, encoder):
        names = (*ENCODER_FEATURES, *self.features)
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        states = encoder({name: inputs[name] for name in ENCODER_FEATURES})["sequence_output"]
        head = head_tensors(encoder.config, self.head)
        # Predictions of a newly initialized head are random.
        head = [dataclasses.replace(name, optional=False) for name in head]
        logits = masked_logits(encoder, states, inputs)
        return keras.Model(inputs, {"states": states, "masked_lm": logits}), head

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        self._check(encoder.config)
        taught = self._frozen({n: inputs[n] for n in (*ENCODER_FEATURES, *self.features)})
        states = encoded["sequence_output"]
        logits = masked_logits(encoder, states, inputs)
        return {
            "masked_lm": logits,
            "distilled_words": kl_divergence(taught["masked_lm"], logits, self.temperature),
            "distilled_states": cosine_distance(taught["states"], states),
        }

    def _check(self, student):
        super()._check(student)
        if student.hidden_dim != self._config.hidden_dim:
            raise InputError(
                "student and teacher must have the same hidden_dim for distillation, but have "
                f"{student.hidden_dim} and {self._config.hidden_dim}. Use layer_distillation, "
                "which supports different dimensions."
            )

    def weights(self, features: Tensors, weights: Tensors) -> Tensors:
        is_real = ops.cast(ops.not_equal(features["example_ids"], 0), "float32")
        masked = weights["masked_lm"]
        return {"masked_lm": masked, "distilled_words": masked, "distilled_states": is_real}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        words = vocabulary_flops(config) + vocabulary_flops(self._config) / 3
        return super().flops(config, length, predictions) + predictions * words

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "word_weight": self.word_weight,
            "masked_lm_weight": self.masked_lm_weight,
            "state_weight": self.state_weight,
            "temperature": self.temperature,
        }


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class LayerDistillation(_Distillation):
    """Distillation of a teacher's embeddings, hidden states and attention, without its predictions.

    Source: Jiao et al. 2020, "TinyBERT", sections 3 and 4.2, general distillation.
    """

    name = "layer_distillation"
    details = ("hidden_states", "attention_logits")
    without_accuracy = ("distilled_layers", "distilled_attention")

    def __init__(self, teacher: str | Path | None = None, dtype: Any = None) -> None:
        super().__init__(teacher, dtype)

    def factors(self) -> dict[str, float]:
        return dict.fromkeys(self.without_accuracy, 1.0)

    def _create_teacher(self, encoder):
        return encoder.with_outputs(*self.details), []

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        self._check(encoder.config)
        taught = self._frozen({name: inputs[name] for name in ENCODER_FEATURES})
        maps, width = None, self._config.hidden_dim
        if encoder.config.hidden_dim != width:
            maps = [linear_map(encoder, width, name) for name in ("embedding_map", "hidden_map")]
        errors = layer_errors(taught, encoded, inputs["example_ids"], maps)
        return dict(zip(self.without_accuracy, errors, strict=True))

    def _check(self, student):
        super()._check(student)
        check_layers(student, self._config)

    def weights(self, features: Tensors, weights: Tensors) -> Tensors:
        is_real = ops.cast(ops.not_equal(features["example_ids"], 0), "float32")
        return dict(zip(self.without_accuracy, (is_real, ops.max(is_real, axis=1)), strict=True))


class _Frozen(keras.layers.Layer):
    """Calls a model without dropout or gradients."""

    def __init__(self, model: keras.Model, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # A namespace hides its variables from Keras and from checkpoints.
        self._asked = types.SimpleNamespace(model=model)
        self.built = True

    def call(self, features: Tensors) -> Tensors:
        outputs = self._asked.model(features, training=False)
        return keras.tree.map_structure(ops.stop_gradient, outputs)

    def compute_output_spec(self, features: Tensors) -> Tensors:
        return self._asked.model.compute_output_spec(features)
