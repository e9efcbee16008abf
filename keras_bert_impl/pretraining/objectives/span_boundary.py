"""The span-boundary objective."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.layouts.names import TensorName, dense, layer_norm, optional
from keras_bert_impl.layers import Dense, Embeddings, GatherPositions, MaskedLMHead
from keras_bert_impl.layers.activations import ACTIVATIONS
from keras_bert_impl.layers.normalization import LayerNormalization
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.objectives.base import Objective, Tensor, Tensors
from keras_bert_impl.training.runs.flops import vocabulary_flops

Shape = tuple[int | None, ...]
# Sizes of the published code; tokens further into a span share the last position embedding.
_NUM_PLACES, _PLACE_DIM = 20, 200


@keras.saving.register_keras_serializable("keras_bert_impl.objectives")
class SpanBoundary(Objective):
    """Predicts each token of a masked span from the two tokens beside the span and its position.

    Source: Joshi et al. 2019, "SpanBERT", section 3.2.
    """

    name = "span_boundary"
    needs_both_sides = True
    features = ("masked_positions", "span_starts", "span_ends")

    def connect(self, encoder: Encoder, encoded: dict[str, Any], inputs: Tensors) -> Tensors:
        dtype = encoder.dtype_policy
        gather = GatherPositions(dtype=dtype, name="gather_boundaries")
        states, starts = encoded["sequence_output"], inputs["span_starts"]
        # A span always has tokens before and after it, at least [CLS] and [SEP]. The values at
        # unused slots do not matter.
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
    """Two dense layers with GELU and layer normalization, then the token embeddings.

    Args:
        before, after: `[batch, predictions, hidden]`. Hidden states beside the span.
        places: int32 `[batch, predictions]`. Position of the token in the span, from 0.

    Returns:
        float32 `[batch, predictions, vocabulary]`.

    Source: Joshi et al. 2019, "SpanBERT", section 3.2; sizes: the published code.
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
        of_places = ops.cast(ops.take(self.place_embeddings, places, axis=0), self.compute_dtype)
        inputs = ops.concatenate([before, after, of_places], axis=-1)
        return self.words(self.layer_norm(self.dense(inputs)))

    def compute_output_spec(
        self, before: Tensor, after: Tensor, places: Tensor
    ) -> keras.KerasTensor:
        shape = (*places.shape, self.words.embeddings.vocabulary_size)
        return keras.KerasTensor(shape, dtype="float32")
