"""The base class of pre-training objectives, and the objectives for tokens, pairs and spans."""

from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import head_tensors, huggingface_config
from keras_bert_impl.checkpoints.interop.layouts.bert import TensorName, dense, layer_norm, optional
from keras_bert_impl.layers import Dense, Embeddings, GatherPositions, MaskedLMHead
from keras_bert_impl.layers.basic import ACTIVATIONS, LayerNormalization
from keras_bert_impl.layers.heads import VocabularyScores
from keras_bert_impl.layers.losses import cross_entropy
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head, pooled_head
from keras_bert_impl.training.runs.reports import vocabulary_flops
from keras_bert_impl.utils.errors import InputError

Tensor = Any
Tensors = dict[str, Tensor]
ENCODER_FEATURES = ("token_ids", "segment_ids", "position_ids", "example_ids")
Shape = tuple[int | None, ...]
# The sizes are from the published code. Tokens beyond this position use its embedding.
_NUM_PLACES, _PLACE_DIM = 20, 200


class PretrainingObjective:
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
        """Names of the outputs for which a loss is computed."""
        return tuple(self.factors())

    def factors(self) -> dict[str, float]:
        """Returns a dict from the name of each output to the weight in the total loss."""
        return {self.name: self.weight}

    @property
    def has_default_losses(self) -> bool:
        """Whether the class uses the default `losses` and `hits`, which need no stored logits."""
        cls = type(self)
        return cls.losses is PretrainingObjective.losses and cls.hits is PretrainingObjective.hits

    def prepare(self, encoder: Encoder, inputs: Tensors) -> tuple[Tensors, Tensors]:
        """Returns (features for the encoder, additional outputs). Default: (`inputs`, {})."""
        return inputs, {}

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        """Creates the head and applies it to the encoder's outputs; returns float32 logits."""
        raise NotImplementedError

    def weights(self, features: Tensors, weights: Tensors) -> Tensors:
        """Returns the float32 weights of the positions of each output; 0 means no label."""
        return {name: weights[name] for name in self.output_names}

    def labels(self, features: Tensors, labels: Tensors, outputs: Tensors) -> Tensors:
        """Returns a dict with the labels of each output. Labels and weights have equal shapes."""
        return {name: labels[name] for name in self.output_names}

    def losses(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        """Returns the loss at each position of an output. Default: softmax cross-entropy."""
        if isinstance(logits, VocabularyScores):
            return logits.losses
        return cross_entropy(labels, logits)

    def hits(self, output: str, labels: Tensor, logits: Tensor) -> Tensor:
        """Returns 1.0 where the prediction equals the label. The mean is the accuracy."""
        if isinstance(logits, VocabularyScores):
            return logits.hits
        # This equals a comparison with the argmax unless logits are tied. On CPUs, an argmax over
        # the vocabulary takes longer than the loss.
        indices = ops.cast(labels, "int32")[..., None]
        label_logits = ops.take_along_axis(logits, indices, axis=-1)[..., 0]
        return ops.cast(label_logits >= ops.max(logits, axis=-1), "float32")

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        """Returns the FLOPs of the objective per token in a forward pass. Ignores padding."""
        return 0.0

    def tensors(self, config: EncoderConfig) -> list[TensorName]:
        """Returns the tensor names of the head's variables."""
        return head_tensors(config, self.head) if self.head else []

    def of_directory(self, path: Path, **overrides: Any) -> "PretrainingObjective":
        """Returns the objective with the configuration in a model directory. Default: `self`."""
        return self

    def load(self, pretrainer: keras.Model, path: Path) -> None:
        """Loads additional files of the objective from a model directory. Default: none."""

    def save(self, pretrainer: keras.Model, directory: Path) -> None:
        """Writes additional files of the objective to a model directory. Default: none."""

    def get_config(self) -> dict[str, Any]:
        return {"weight": self.weight}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PretrainingObjective":
        return cls(**config)


def masked_logits(
    encoder: Encoder, states: Tensor, inputs: Tensors, factored: bool = False
) -> Tensor:
    """Returns the logits of a new masked LM head at `masked_positions`."""
    gather = GatherPositions(dtype=encoder.dtype_policy, name="gather_masked")
    return masked_lm_head(encoder, factored=factored)(gather(states, inputs["masked_positions"]))


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class MaskedLM(PretrainingObjective):
    """Masked language modeling: predicts the original ids of masked tokens.

    Source: Devlin et al., "BERT", section 3.1.
    """

    name = head = "masked_lm"
    needs_both_sides = True
    features = ("masked_positions",)

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        states = encoded["sequence_output"]
        return {self.name: masked_logits(encoder, states, inputs, self.has_default_losses)}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        return predictions * vocabulary_flops(config)


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class LeftToRight(PretrainingObjective):
    """Causal language modeling: predicts each next token from the tokens before it.

    Source: Devlin et al., "BERT", section 5.1.
    """

    name = head = "left_to_right"

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        if not encoder.config.causal:
            raise InputError(
                "left_to_right needs an encoder with causal=True in its configuration."
            )
        # This raises if a config.json cannot express the model.
        huggingface_config(encoder.config, self.head)
        head = masked_lm_head(encoder, factored=self.has_default_losses)
        return {self.name: head(encoded["sequence_output"])}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        return vocabulary_flops(config)

    def tensors(self, config: EncoderConfig) -> list[TensorName]:
        return head_tensors(config, "masked_lm")


class _PairObjective(PretrainingObjective):
    """Binary classification of segment pairs. Uses the pooled output of each [CLS] token."""

    features = ("cls_positions",)
    uses_pooler = True
    needs_both_sides = True

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        gather = GatherPositions(dtype=encoder.dtype_policy, name=f"gather_{self.name}")
        # A packed row contains one [CLS] per example: [batch, examples, hidden]
        first = gather(encoded["sequence_output"], inputs["cls_positions"])
        pooled = encoder.pooler(first) if encoder.pooler else first
        return {self.name: pooled_head(encoder, self.name)(pooled)}


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class NextSentence(_PairObjective):
    """Predicts whether the second segment follows the first segment or is from another document.

    Source: Devlin et al., "BERT", section 3.1.
    """

    name = head = "next_sentence"


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SentenceOrder(_PairObjective):
    """Predicts whether two consecutive segments are in order or swapped.

    Source: Lan et al. 2019, "ALBERT", section 3.1.
    """

    name = head = "sentence_order"


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SpanBoundary(PretrainingObjective):
    """Predicts each token of a masked span from the two tokens next to the span and its position.

    Source: Joshi et al. 2019, "SpanBERT", section 3.2.
    """

    name = "span_boundary"
    needs_both_sides = True
    features = ("masked_positions", "span_starts", "span_ends")

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        dtype = encoder.dtype_policy
        gather = GatherPositions(dtype=dtype, name="gather_boundaries")
        states, starts = encoded["sequence_output"], inputs["span_starts"]
        # A span always has neighbors, because [CLS] and [SEP] are never masked. The values of
        # unused slots are ignored.
        before = gather(states, ops.maximum(starts - 1, 0))
        after = gather(states, inputs["span_ends"] + 1)
        config = encoder.config
        head = SpanBoundaryHead(
            encoder.embeddings,
            config.hidden_dim,
            layer_norm_epsilon=config.layer_norm_epsilon,
            initializer_range=config.initializer_range,
            factored=self.has_default_losses,
            dtype=dtype,
            name=self.name,
        )
        return {self.name: head(before, after, inputs["masked_positions"] - starts)}

    def flops(self, config: EncoderConfig, length: int, predictions: float) -> float:
        joined = 2 * config.hidden_dim + _PLACE_DIM
        return predictions * (2 * joined * config.hidden_dim + vocabulary_flops(config))

    def tensors(self, config: EncoderConfig) -> list[TensorName]:
        names = [
            TensorName(f"{self.name}/place_embeddings", f"{self.name}.place_embeddings.weight"),
            *dense(f"{self.name}/dense", f"{self.name}.dense"),
            *layer_norm(f"{self.name}/layer_norm", f"{self.name}.LayerNorm"),
            *dense(f"{self.name}/words/dense", f"{self.name}.transform.dense"),
            *layer_norm(f"{self.name}/words/layer_norm", f"{self.name}.transform.LayerNorm"),
            TensorName(f"{self.name}/words/output_bias", f"{self.name}.bias"),
        ]
        return optional(names)


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SpanBoundaryHead(keras.layers.Layer):
    """Head: two dense layers with GELU and layer normalization, then the token embeddings.

    Args:
        before, after: `[batch, predictions, hidden]`. Hidden states of the tokens before and after
            the span.
        places: int32 `[batch, predictions]`, 0-based position of the token in the span.

    Returns:
        float32 `[batch, predictions, vocabulary]`.

    Source: Joshi et al. 2019, "SpanBERT", section 3.2; the sizes are from the published code.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        hidden_dim: int,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        factored: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
        self.dense = Dense(
            hidden_dim,
            activation=ACTIVATIONS["gelu"],
            kernel_initializer=self.initializer,
            dtype=self.dtype_policy,
            name="dense",
        )
        self.layer_norm = LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.words = MaskedLMHead(
            embeddings,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            factored=factored,
            dtype=self.dtype_policy,
            name="words",
        )

    def build(self, before_shape: Shape, after_shape: Shape, places_shape: Shape) -> None:
        width = before_shape[-1]
        self.place_embeddings = self.add_weight(
            shape=(_NUM_PLACES, _PLACE_DIM),
            initializer=self.initializer,
            autocast=False,
            name="place_embeddings",
        )
        self.dense.build((None, None, 2 * width + _PLACE_DIM))
        self.layer_norm.build((None, None, self.dense.units))
        self.words.build((None, None, self.dense.units))
        self.built = True

    def call(self, before: Tensor, after: Tensor, places: Tensor) -> Tensor:
        places = ops.clip(places, 0, _NUM_PLACES - 1)
        place_vectors = ops.cast(
            ops.take(self.place_embeddings, places, axis=0), self.compute_dtype
        )
        inputs = ops.concatenate([before, after, place_vectors], axis=-1)
        return self.words(self.layer_norm(self.dense(inputs)))

    def compute_output_spec(
        self, before: Tensor, after: Tensor, places: Tensor
    ) -> keras.KerasTensor:
        shape = (*places.shape, self.words.embeddings.vocabulary_size)
        return keras.KerasTensor(shape, dtype="float32")
