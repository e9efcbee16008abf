"""Embedding layer: the sum of token, position and segment embeddings."""

import functools
from typing import Any

import keras
from keras import ops

from keras_bert_impl.layers.adapters import freeze_parts
from keras_bert_impl.layers.basic import Dense, Dropout, LayerNormalization

Tensor = Any  # a tensor of any Keras backend

_TABLES = ("token_embeddings", "position_embeddings", "segment_embeddings")


@keras.saving.register_keras_serializable("keras_bert_impl")
class Embeddings(keras.layers.Layer):
    """Sum of token, position and segment embeddings, with normalization and dropout.

    Args:
        hidden_dim: width of the output.
        max_length: number of positions; 0 disables position embeddings.
        num_segments: number of segments; 0 disables segment embeddings.
        embedding_dim: width of the embeddings, which a linear layer projects to `hidden_dim`. None
            means `hidden_dim`, without a projection.
        position_offset: row of the position table for the first token. With an offset,
            padding tokens have no position and use row `position_offset - 1`.
        pad_token_id: id of the padding token; used only with a `position_offset`.
        dropout: rate after the normalization.
        initializer_range: standard deviation of the initial weights.
        use_bias: whether the normalization and the projection add a bias.
        has_norm: whether the sum is normalized.
        shared: built `Embeddings` layer with equal sizes. The new layer uses the tables and the
            normalization of `shared`. None creates new tables. A layer from `from_config` always
            has new tables.

    Call arguments:
        token_ids: int32 `[batch, length]`.
        segment_ids: int32 `[batch, length]`. None means all 0.
        position_ids: int32 `[batch, length]`. None means 0, 1, 2, ...

    Returns:
        `[batch, length, hidden_dim]` in the variable dtype. If a token, segment or position id is
        out of range, the vector of the token is NaN. Without this check, XLA and accelerators would
        return another row of the table without an error.

    Source: Devlin et al., "BERT", section 3, figure 2. For the projection: Lan et al., "ALBERT",
        section 3.1. For the position offset: the published code of RoBERTa.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        max_length: int = 512,
        num_segments: int = 2,
        embedding_dim: int | None = None,
        position_offset: int = 0,
        pad_token_id: int = 0,
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        has_norm: bool = True,
        shared: "Embeddings | None" = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_length = max_length
        self.num_segments = num_segments
        self.embedding_dim = embedding_dim or hidden_dim
        self.position_offset = position_offset
        self.pad_token_id = pad_token_id
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.use_bias = use_bias
        self.has_norm = has_norm
        self._is_sharing = shared is not None
        if self._is_sharing:
            for name in (*_TABLES, "layer_norm"):
                setattr(self, name, getattr(shared, name, None))
        elif not has_norm:
            self.layer_norm = keras.layers.Identity(dtype=self.variable_dtype)
        else:
            self.layer_norm = LayerNormalization(
                epsilon=layer_norm_epsilon,
                center=use_bias,
                dtype=self.variable_dtype,
                name="layer_norm",
            )
        self.dropout = Dropout(dropout, dtype=self.variable_dtype, name="dropout")
        self.projection = None
        if embedding_dim is not None:
            self.projection = Dense(
                hidden_dim,
                use_bias=use_bias,
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
                dtype=self.dtype_policy,
                name="projection",
            )

    def build(self, *args, **kwargs) -> None:
        if not self._is_sharing:
            self._build_tables()
        self.dropout.build()
        if self.projection is not None:
            self.projection.build((None, None, self.embedding_dim))
        freeze_parts(self)
        self.built = True

    def _build_tables(self):
        def create_table(rows, name):
            # Without autocast, only the looked-up rows are cast in mixed precision, not the whole
            # table.
            return self.add_weight(
                shape=(rows, self.embedding_dim),
                initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
                autocast=False,
                name=name,
            )

        self.token_embeddings = create_table(self.vocabulary_size, "token_embeddings")
        if self.max_length:
            positions = self.max_length + self.position_offset
            self.position_embeddings = create_table(positions, "position_embeddings")
        if self.num_segments:
            self.segment_embeddings = create_table(self.num_segments, "segment_embeddings")
        self.layer_norm.build((None, None, self.embedding_dim))

    def call(
        self,
        token_ids: Tensor,
        segment_ids: Tensor = None,
        position_ids: Tensor = None,
        training: bool = False,
    ) -> Tensor:
        embeddings = ops.take(self.token_embeddings, token_ids, axis=0)
        lookups = [(token_ids, self.vocabulary_size)]
        if self.max_length and position_ids is None and not self.position_offset:
            embeddings = embeddings + self.position_embeddings[: ops.shape(token_ids)[1]]
        elif self.max_length:
            rows = self._compute_position_rows(token_ids, position_ids)
            embeddings = embeddings + ops.take(self.position_embeddings, rows, axis=0)
            lookups.append((rows, self.max_length + self.position_offset))
        if self.num_segments and segment_ids is None:
            embeddings = embeddings + self.segment_embeddings[0]
        elif self.num_segments:
            embeddings = embeddings + ops.take(self.segment_embeddings, segment_ids, axis=0)
            lookups.append((segment_ids, self.num_segments))
        embeddings = embeddings + _mark_out_of_range(lookups, embeddings.dtype)
        embeddings = self.dropout(self.layer_norm(embeddings), training=training)
        if self.projection is not None:
            embeddings = ops.cast(self.projection(embeddings), self.variable_dtype)
        return embeddings  # [batch, length, hidden]

    def _compute_position_rows(self, token_ids, position_ids):
        if position_ids is None:
            is_real = ops.cast(ops.not_equal(token_ids, self.pad_token_id), "int32")
            position_ids = ops.cumsum(is_real, axis=1) * is_real - 1
        return position_ids + self.position_offset

    def compute_output_spec(
        self,
        token_ids: Tensor,
        segment_ids: Tensor = None,
        position_ids: Tensor = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        return keras.KerasTensor((*token_ids.shape, self.hidden_dim), dtype=self.variable_dtype)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "max_length": self.max_length,
            "num_segments": self.num_segments,
            "embedding_dim": self.embedding_dim if self.projection else None,
            "position_offset": self.position_offset,
            "pad_token_id": self.pad_token_id,
            "dropout": self.dropout.rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "use_bias": self.use_bias,
            "has_norm": self.has_norm,
        }


def _mark_out_of_range(lookups, dtype):
    """Returns NaN for each token with an id out of range, and otherwise 0: `[batch, length, 1]`."""
    inside = [ops.logical_and(ids >= 0, ids < rows) for ids, rows in lookups]
    is_known = functools.reduce(ops.logical_and, inside)
    return ops.cast(ops.where(is_known, 0.0, float("nan")), dtype)[..., None]
