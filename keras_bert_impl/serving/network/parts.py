"""Network parts that several models share, written operator by operator."""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.layers import ClassificationHead
from keras_bert_impl.serving.network import layers
from keras_bert_impl.serving.network.layers import Graph, Tensor, Tensors

NO_ROW = np.float32(-1e9)  # logit of a padding choice, see `layers.ChoiceLogits`


def input_names(config: EncoderConfig) -> dict[str, str]:
    """Returns the encoder's feature name for each input."""
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    return names | ({"token_type_ids": "segment_ids"} if config.num_segments > 1 else {})


def add_inputs(graph: Graph, config: EncoderConfig, group: Sequence[str] = ()) -> Tensors:
    """Adds the inputs; `group` names the dimensions between `batch` and `length`."""
    shape = ["batch", *group, "length"]
    return {name: graph.input(name, shape) for name in input_names(config)}


def merge_groups(graph: Graph, features: Tensors, rank: int) -> Tensors:
    """Reshapes features `[batch, group, ..., length]`, of `rank`, to `[batch * group, ..., length]`."""
    rest = graph.add("Shape", features["input_ids"], start=2, end=rank)
    shape = graph.add("Concat", [-1], rest, axis=0)
    return {name: graph.add("Reshape", feature, shape) for name, feature in features.items()}


def hidden_states(graph: Graph, config: EncoderConfig, features: Tensors) -> list[Tensor]:
    """Returns the embeddings and every layer's output, [batch, length, hidden]."""
    states = [layers.embeddings(graph, config, features)]
    attention = layers.Attention(graph, config, features)
    for index in range(config.num_layers):
        states.append(layers.block(graph, config, states[-1], index, attention))
    if config.final_norm:
        epsilon = config.layer_norm_epsilon
        states[-1] = layers.layer_norm(graph, states[-1], "final_layer_norm", epsilon)
    return states


def pooled_vectors(
    graph: Graph, config: EncoderConfig, features: Tensors, use_pooler: bool
) -> Tensor:
    """Returns one vector per row, [batch, hidden]."""
    states = hidden_states(graph, config, features)[-1]
    return pool_tokens(graph, config, states, features, use_pooler)


def pool_tokens(
    graph: Graph, config: EncoderConfig, states: Tensor, features: Tensors, use_pooler: bool
) -> Tensor:
    """Returns the encoder's pooled output from its last hidden states, [batch, hidden]."""
    if config.pooled_by == "mean":
        pooled = layers.mean_pooling(graph, states, features["attention_mask"])
    elif config.pooled_by == "last":
        pooled = layers.last_token(graph, states, features["attention_mask"])
    else:
        pooled = layers.first_token(graph, states)
    return layers.dense(graph, pooled, "pooler/dense", "tanh") if use_pooler else pooled


def add_logits(graph: Graph, inputs: Tensor, head: ClassificationHead) -> Tensor:
    """Mirrors `layers.ClassificationHead`, in float32."""
    if head.activation is not None:
        inputs = layers.dense(graph, inputs, f"{head.name}/transform", head.activation)
    if head.layer_norm_epsilon is not None:
        epsilon = head.layer_norm_epsilon
        inputs = layers.layer_norm(graph, inputs, f"{head.name}/layer_norm", epsilon)
    return graph.as_float32(layers.dense(graph, inputs, f"{head.name}/dense"))


def text_vectors(
    graph: Graph,
    features: Tensors,
    model: keras.Model,
    vectors_of_rows: Callable[[Tensors], Tensor],
    dim: int | None = None,
) -> Tensor:
    """Returns one vector per text, [texts, dim], for features [texts, (windows,) length]."""
    if not model.long_texts.has_windows:
        return vectors_of_rows(features)
    rows = vectors_of_rows(merge_groups(graph, features, rank=3))
    dim = dim or model.config.hidden_dim
    return pool_windows(graph, rows, features["attention_mask"], dim, model.long_texts.way)


def pool_windows(
    graph: Graph, rows: Tensor, mask: Tensor, dim: int, pooling: str, name: str = "pool_windows"
) -> Tensor:
    """Mirrors `layers.PoolWindows`, in float32; rows are [texts * windows, dim]."""
    shape = graph.add("Concat", graph.add("Shape", mask, end=2), [dim], axis=0)
    vectors = graph.add("Reshape", graph.as_float32(rows), shape)  # [texts, windows, dim]
    real = graph.add("ReduceMax", mask, axes=[2])  # [batch, windows, 1]
    is_real = graph.cast(real, "bool")
    if pooling == "max":
        vectors = graph.add("Where", is_real, vectors, NO_ROW)
        return graph.as_computed(graph.add("ReduceMax", vectors, axes=[1], keepdims=0))
    if pooling == "mean":
        real = graph.cast(real, "float32")
        number = graph.add("Max", graph.add("ReduceSum", real, [1]), np.float32(1))
        weights = graph.add("Div", real, number)
    else:
        hidden = layers.dense(graph, graph.as_computed(vectors), f"{name}/dense", "tanh")
        scores = graph.as_float32(layers.dense(graph, hidden, f"{name}/score"))
        weights = graph.add("Softmax", graph.add("Where", is_real, scores, NO_ROW), axis=1)
    pooled = graph.add("ReduceSum", graph.add("Mul", weights, vectors), [1], keepdims=0)
    return graph.as_computed(pooled)
