"""The base class of pre-training objectives."""

from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop import head_tensors
from keras_bert_impl.interop.layouts.names import TensorName
from keras_bert_impl.layers.fused.logits import VocabularyScores
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.training.cross_entropy import cross_entropy

Tensor = Any
Tensors = dict[str, Tensor]
ENCODER_FEATURES = ("token_ids", "segment_ids", "position_ids", "example_ids")


class Objective:
    """A pre-training task: a head on the encoder and its loss."""

    name: str
    head: str | None = None
    features: tuple[str, ...] = ()
    uses_pooler = False
    details: tuple[str, ...] = ()
    without_accuracy: tuple[str, ...] = ()
    needs_both_sides = False

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs of `connect` that have labels."""
        return tuple(self.factors())

    def factors(self) -> dict[str, float]:
        """Returns a dict of output to its factor (float) in the total loss."""
        return {self.name: self.weight}

    @property
    def has_default_losses(self) -> bool:
        """Whether `losses` and `hits` are those of this class, which need no whole logits."""
        own = type(self)
        return own.losses is Objective.losses and own.hits is Objective.hits

    def prepare(self, encoder: Encoder, inputs: Tensors) -> tuple[Tensors, Tensors]:
        """Transforms the dataset's inputs, the encoder's and `features`, before the encoder.

        Returns:
            (inputs, outputs): the inputs, some of them replaced; and intermediate results to add to
            the outputs of the pre-trainer.
        """
        return inputs, {}

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        """Applies a new head to the outputs of the encoder, `details` included: float32 logits."""
        raise NotImplementedError

    def weights(self, features: Tensors, weights: Tensors) -> Tensors:
        """Returns the weight of each position of an output, 0 without a label: float32."""
        return {name: weights[name] for name in self.output_names}

    def labels(self, features: Tensors, labels: Tensors, outputs: Tensors) -> Tensors:
        """Returns the labels of each output, with the shape of its weights."""
        return {name: labels[name] for name in self.output_names}

    def losses(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        """Computes the loss at every position of an output; by default softmax cross-entropy."""
        if isinstance(logits, VocabularyScores):
            return logits.losses
        return cross_entropy(labels, logits)

    def hits(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        """Returns 1.0 where the prediction equals the label; the mean is the accuracy."""
        if isinstance(logits, VocabularyScores):
            return logits.hits
        # Same as an argmax unless logits tie. On CPUs an argmax over the vocabulary takes longer
        # than the loss.
        own = ops.take_along_axis(logits, ops.cast(labels, "int32")[..., None], axis=-1)[..., 0]
        return ops.cast(own >= ops.max(logits, axis=-1), "float32")

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        """Returns the floating-point operations of its part of the forward pass, per real token."""
        return 0.0

    def tensors(self, config: EncoderConfig) -> list[TensorName]:
        """Maps the variables of its head to tensors of a model directory."""
        return head_tensors(config, self.head) if self.head else []

    def of_directory(self, path: Path, **overrides: Any) -> "Objective":
        """Returns the objective as configured in a model directory."""
        return self

    def load(self, pretrainer: keras.Model, path: Path) -> None:
        """Loads the objective's separate files, if any, from a model directory `path`."""

    def save(self, pretrainer: keras.Model, directory: Path) -> None:
        """Writes the objective's separate files, if any, to a new model directory."""

    def get_config(self) -> dict[str, Any]:
        """Returns a dict of the arguments, for `.keras` files."""
        return {"weight": self.weight}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Objective":
        """Creates an objective from the result of `get_config`."""
        return cls(**config)
