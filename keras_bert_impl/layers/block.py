"""The transformer block, one layer of the encoder."""

import dataclasses
import functools
from typing import Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.layers.adapters import dense, freeze_parts
from keras_bert_impl.layers.attention import SelfAttention
from keras_bert_impl.layers.basic import (
    ACTIVATIONS,
    Dropout,
    LayerNormalization,
    is_recomputed,
    recomputed,
)
from keras_bert_impl.layers.bigbird import BigBirdAttention, BlockSparsity
from keras_bert_impl.layers.key_value_cache import KeyValueCache
from keras_bert_impl.layers.longformer import LongformerAttention

Tensor = Any  # a tensor of any Keras backend


@keras.saving.register_keras_serializable("keras_bert_impl")
class TransformerBlock(keras.layers.Layer):
    """Self-attention and a feed-forward network, each with a residual connection and normalization.

    In mixed precision, matrix products use the compute dtype. The residual stream and the
    normalizations use the variable dtype, as with PyTorch's autocast
    (docs/decisions/float32-states.md).

    Args:
        intermediate_dim: width of the feed-forward network.
        activation: A key of `ACTIVATIONS`.
        dropout: rate on the output of each sublayer.
        attention_dropout: rate on the attention weights.
        initializer_range: standard deviation of the initial weights.
        pre_norm: whether to normalize the inputs of each sublayer (pre-norm) instead of the
            residual sum (post-norm).
        attention_norm: whether the attention has a normalization. Use False only with `pre_norm`.
        use_bias: whether the dense layers and normalizations add a bias.
        gated: whether to multiply the activation by a second linear projection of the inputs. If
            True, dropout is applied before the output layer, as in ModernBERT. Otherwise, dropout
            is applied after the output layer.
        has_global_tokens: whether to use `LongformerAttention`.
        sparsity: `BlockSparsity` of a `BigBirdAttention`, or a dict of its fields.
        num_heads, rotary_base, window, adapter: see `SelfAttention`.

    Call arguments and results: same as `SelfAttention`. The outputs have the variable dtype.

    Source: Vaswani et al. 2017, section 3.1, with GELU as in Devlin et al., appendix A.2; for the
    gate, Shazeer 2020 (arXiv:2002.05202), section 2.
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        activation: str = "gelu",
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        pre_norm: bool = False,
        attention_norm: bool = True,
        use_bias: bool = True,
        gated: bool = False,
        rotary_base: float | None = None,
        window: int | None = None,
        has_global_tokens: bool = False,
        sparsity: BlockSparsity | dict | None = None,
        adapter: Adapter | dict | None = None,
        **kwargs,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # The inner layers cast their inputs.
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.pre_norm = pre_norm
        self.attention_norm = attention_norm
        self.use_bias = use_bias
        self.gated = gated
        self.rotary_base = rotary_base
        self.window = window
        self.has_global_tokens = has_global_tokens
        self.adapter = Adapter.of(adapter)
        self.sparsity = sparsity and BlockSparsity.of(sparsity)
        attention_class: Any = LongformerAttention if has_global_tokens else SelfAttention
        if self.sparsity is not None:
            attention_class = functools.partial(BigBirdAttention, sparsity=self.sparsity)
        self.attention = attention_class(
            num_heads,
            dropout=attention_dropout,
            initializer_range=initializer_range,
            use_bias=use_bias,
            rotary_base=rotary_base,
            window=window,
            adapter=self.adapter,
            dtype=self.dtype_policy,
            name="attention",
        )
        if attention_norm:
            self.attention_layer_norm = self._create_layer_norm("attention_layer_norm")
        else:
            self.attention_layer_norm = keras.layers.Identity(dtype=self.dtype_policy)
        self.intermediate = self._create_dense(
            intermediate_dim, "intermediate", ACTIVATIONS[activation]
        )
        self.gate = self._create_dense(intermediate_dim, "gate") if gated else None
        self.output_layer_norm = self._create_layer_norm("output_layer_norm")
        # A single layer would drop the same units in both sublayers.
        self.attention_output_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="attention_output_dropout"
        )
        self.output_dropout = Dropout(dropout, dtype=self.dtype_policy, name="output_dropout")

    def _create_layer_norm(self, name):
        return LayerNormalization(
            epsilon=self.layer_norm_epsilon,
            center=self.use_bias,
            dtype=self.variable_dtype,
            name=name,
        )

    def _create_dense(self, units, name, activation=None):
        return dense(
            self.adapter,
            name,
            units,
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_range),
            dtype=self.dtype_policy,
            name=name,
        )

    def dense_layers(self) -> list[keras.layers.Dense]:
        attention = self.attention
        layers = [attention.query, attention.key, attention.value, attention.output_dense]
        if self.has_global_tokens:
            layers += [attention.query_global, attention.key_global, attention.value_global]
        layers += [self.intermediate, self.gate, self.output_dense]
        return [layer for layer in layers if layer is not None]

    def build(
        self,
        inputs_shape: tuple,
        bias_shape: tuple | None = None,
        position_ids_shape: tuple | None = None,
    ) -> None:
        self.output_dense = self._create_dense(inputs_shape[-1], "output")
        self.attention.build(inputs_shape)
        self.attention_layer_norm.build(inputs_shape)
        self.intermediate.build(inputs_shape)
        if self.gate is not None:
            self.gate.build(inputs_shape)
        self.output_dense.build((*inputs_shape[:-1], self.intermediate_dim))
        self.output_layer_norm.build(inputs_shape)
        self.attention_output_dropout.build()
        self.output_dropout.build()
        freeze_parts(self)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        bias: Tensor,
        position_ids: Tensor = None,
        return_attention_scores: bool | str = False,
        training: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if is_recomputed():
            arguments = bias, position_ids, return_attention_scores, training
            return recomputed(lambda inputs: self.call(inputs, *arguments), inputs)
        inputs = ops.cast(inputs, self.variable_dtype)
        attended = self.attention(
            self.attention_layer_norm(inputs) if self.pre_norm else inputs,
            bias,
            position_ids,
            return_attention_scores=return_attention_scores,
            training=training,
            **({} if cache is None else {"cache": cache}),
        )
        if return_attention_scores:
            attended, scores = attended
        attended = self.attention_output_dropout(attended, training=training)
        attended = inputs + ops.cast(attended, self.variable_dtype)  # [batch, length, hidden]
        if not self.pre_norm:
            attended = self.attention_layer_norm(attended)
        outputs = self.output_layer_norm(attended) if self.pre_norm else attended
        outputs = attended + ops.cast(
            self._apply_feed_forward(outputs, training), self.variable_dtype
        )
        if self.adapter is not None and self.adapter.after_norm:
            added = self.output_dense.adapter(self.output_layer_norm(outputs))
            outputs = outputs + ops.cast(added, self.variable_dtype)
        if not self.pre_norm:
            outputs = self.output_layer_norm(outputs)
        return (outputs, scores) if return_attention_scores else outputs

    def _apply_feed_forward(self, inputs, training):
        outputs = self.intermediate(inputs)  # [batch, length, intermediate]
        if self.gate is None:
            return self.output_dropout(self.output_dense(outputs), training=training)
        outputs = outputs * self.gate(inputs)
        return self.output_dense(self.output_dropout(outputs, training=training))

    def compute_output_spec(
        self,
        inputs: Tensor,
        bias: Tensor,
        position_ids: Tensor = None,
        return_attention_scores: bool | str = False,
        training: bool = False,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, keras.KerasTensor]:
        outputs = keras.KerasTensor(inputs.shape, dtype=self.variable_dtype)
        if not return_attention_scores:
            return outputs
        _, scores = self.attention.compute_output_spec(inputs, bias, return_attention_scores=True)
        return outputs, scores

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "dropout": self.output_dropout.rate,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "pre_norm": self.pre_norm,
            "attention_norm": self.attention_norm,
            "use_bias": self.use_bias,
            "gated": self.gated,
            "rotary_base": self.rotary_base,
            "window": self.window,
            "has_global_tokens": self.has_global_tokens,
            "sparsity": self.sparsity and dataclasses.asdict(self.sparsity),
            "adapter": self.adapter and dataclasses.asdict(self.adapter),
        }
