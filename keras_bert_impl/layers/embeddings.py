"""Sum of token, position and segment embeddings."""

import keras
from keras import ops

from keras_bert_impl.layers.dropout import Dropout


@keras.saving.register_keras_serializable("keras_bert_impl")
class Embeddings(keras.layers.Layer):
    """Token + position + segment embeddings, layer normalization, dropout.

    Args:
        vocabulary_size: int.
        hidden_dim: int.
        max_length: int. Number of positions.
        num_segments: int.
        dropout: float. Rate after the normalization.
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        token_ids: int32 `[batch, length]`.
        segment_ids: int32 `[batch, length]` or None for all 0.
        position_ids: int32 `[batch, length]` or None for 0, 1, 2, ...

    Returns:
        `[batch, length, hidden_dim]` in the compute dtype.

    Source: Devlin et al., "BERT", section 3, figure 2.
    """

    def __init__(
        self,
        vocabulary_size,
        hidden_dim,
        max_length=512,
        num_segments=2,
        dropout=0.1,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_length = max_length
        self.num_segments = num_segments
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, *args, **kwargs):
        def table(rows, name):
            # No autocast: rows are looked up first, then cast, so that mixed precision does not
            # cast the whole vocabulary in every step.
            return self.add_weight(
                shape=(rows, self.hidden_dim),
                initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
                autocast=False,
                name=name,
            )

        self.token_embeddings = table(self.vocabulary_size, "token_embeddings")
        self.position_embeddings = table(self.max_length, "position_embeddings")
        self.segment_embeddings = table(self.num_segments, "segment_embeddings")
        self.layer_norm.build((None, None, self.hidden_dim))
        self.dropout.build()
        self.built = True

    def call(self, token_ids, segment_ids=None, position_ids=None, training=False):
        embeddings = ops.take(self.token_embeddings, token_ids, axis=0)
        if position_ids is None:
            embeddings = embeddings + self.position_embeddings[: ops.shape(token_ids)[1]]
        else:
            embeddings = embeddings + ops.take(self.position_embeddings, position_ids, axis=0)
        if segment_ids is None:
            embeddings = embeddings + self.segment_embeddings[0]
        else:
            embeddings = embeddings + ops.take(self.segment_embeddings, segment_ids, axis=0)
        embeddings = ops.cast(self.layer_norm(embeddings), self.compute_dtype)
        return self.dropout(embeddings, training=training)  # [batch, length, hidden]

    def compute_output_shape(self, token_ids_shape, *args, **kwargs):
        return (*token_ids_shape, self.hidden_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "max_length": self.max_length,
            "num_segments": self.num_segments,
            "dropout": self.dropout.rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }
