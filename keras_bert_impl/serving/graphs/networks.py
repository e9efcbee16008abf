"""Converts models to graphs of operators for ONNX and LiteRT."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.layers import ClassificationHead
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.serving.graphs import layers
from keras_bert_impl.serving.graphs.layers import Graph, Tensor, Tensors
from keras_bert_impl.utils.errors import InputError

NO_ROW = np.float32(-1e9)  # logit of a padding choice; see `layers.ChoiceLogits`


def input_names(config: EncoderConfig) -> dict[str, str]:
    """Returns {input of the graph: input of the encoder}, such as `{"input_ids": "token_ids"}`."""
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    return names | ({"token_type_ids": "segment_ids"} if config.num_segments > 1 else {})


def add_inputs(graph: Graph, config: EncoderConfig, group: Sequence[str] = ()) -> Tensors:
    """Adds the inputs of shape `[batch, *group, length]`. `group` contains dimension names."""
    shape = ["batch", *group, "length"]
    return {name: graph.input(name, shape) for name in input_names(config)}


def merge_groups(graph: Graph, features: Tensors, rank: int) -> Tensors:
    """Reshapes features from `[batch, group, ..., length]` to `[batch * group, ..., length]`."""
    inner_shape = graph.add("Shape", features["input_ids"], start=2, end=rank)
    shape = graph.add("Concat", [-1], inner_shape, axis=0)
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
    """Runs the encoder and the pooling. Returns [batch, hidden]."""
    states = hidden_states(graph, config, features)[-1]
    return pool_tokens(graph, config, states, features, use_pooler)


def pool_tokens(
    graph: Graph, config: EncoderConfig, states: Tensor, features: Tensors, use_pooler: bool
) -> Tensor:
    """Returns the pooled output, [batch, hidden], from the last hidden states."""
    if config.pooled_by == "mean":
        pooled = layers.mean_pooling(graph, states, features["attention_mask"])
    elif config.pooled_by == "last":
        pooled = layers.last_token(graph, states, features["attention_mask"])
    else:
        pooled = layers.first_token(graph, states)
    return layers.dense(graph, pooled, "pooler/dense", "tanh") if use_pooler else pooled


def add_logits(graph: Graph, inputs: Tensor, head: ClassificationHead) -> Tensor:
    """Adds `layers.ClassificationHead`, in float32."""
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
    if not model.long_texts.has_windows:
        return vectors_of_rows(features)
    rows = vectors_of_rows(merge_groups(graph, features, rank=3))
    dim = dim or model.config.hidden_dim
    return pool_windows(graph, rows, features["attention_mask"], dim, model.long_texts.way)


def pool_windows(
    graph: Graph, rows: Tensor, mask: Tensor, dim: int, pooling: str, name: str = "pool_windows"
) -> Tensor:
    """Adds `layers.PoolWindows`, in float32. `rows` has the shape [texts * windows, dim]."""
    shape = graph.add("Concat", graph.add("Shape", mask, end=2), [dim], axis=0)
    vectors = graph.add("Reshape", graph.as_float32(rows), shape)  # [texts, windows, dim]
    real = graph.add("ReduceMax", graph.cast(mask, "float32"), axes=[2])  # [batch, windows, 1]
    is_real = graph.cast(real, "bool")
    if pooling == "max":
        vectors = graph.add("Where", is_real, vectors, NO_ROW)
        return graph.as_computed(graph.add("ReduceMax", vectors, axes=[1], keepdims=0))
    if pooling == "mean":
        number = graph.add("Max", graph.add("ReduceSum", real, [1]), np.float32(1))
        weights = graph.add("Div", real, number)
    else:
        hidden = layers.dense(graph, graph.as_computed(vectors), f"{name}/dense", "tanh")
        scores = graph.as_float32(layers.dense(graph, hidden, f"{name}/score"))
        weights = graph.add("Softmax", graph.add("Where", is_real, scores, NO_ROW), axis=1)
    pooled = graph.add("ReduceSum", graph.add("Mul", weights, vectors), [1], keepdims=0)
    return graph.as_computed(pooled)


class Network:
    groups = ()

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self.config = encoder_of(model).config

    @property
    def rank(self) -> int:
        return 2 + len(self.groups)

    def write(self, graph: Graph) -> None:
        """Adds the operators and outputs of the model to a graph that contains the weights."""
        raise NotImplementedError

    def outputs_of_model(self, features: dict) -> dict[str, np.ndarray]:
        return {"logits": to_numpy(self.model(features, training=False))}

    def as_model_outputs(self, session: Callable, features: dict) -> np.ndarray:
        """Runs the exported network. Returns outputs in the format of `outputs_of_model`."""
        return session(features)["logits"]


class EncoderNetwork(Network):
    """Outputs `last_hidden_state` `[batch, length, hidden]` and, with a pooler, `pooler_output`."""

    def write(self, graph: Graph) -> None:
        features = add_inputs(graph, self.config)
        states = hidden_states(graph, self.config, features)[-1]
        width = self.config.hidden_dim
        graph.output("last_hidden_state", states, ["batch", "length", width])
        if self.config.use_pooler:
            pooled = pool_tokens(graph, self.config, states, features, use_pooler=True)
            graph.output("pooler_output", pooled, ["batch", width])

    def outputs_of_model(self, features: dict) -> dict[str, np.ndarray]:
        outputs = self.model(features, training=False)
        arrays = {"last_hidden_state": to_numpy(outputs["sequence_output"])}
        if self.config.use_pooler:
            arrays["pooler_output"] = to_numpy(outputs["pooled_output"])
        return arrays


def network_of(model: keras.Model) -> Network:
    config = encoder_of(model).config
    network = EncoderNetwork if isinstance(model, Encoder) else getattr(model, "network", None)
    if network is None:
        raise InputError(f"a {type(model).__name__} can be exported only as a SavedModel.")
    if config.architecture in ("longformer", "big_bird"):
        raise InputError(f"a {config.architecture} can be exported only as a SavedModel.")
    if config.adapter is not None:
        raise InputError(
            f"a model with an adapter, {config.adapter.kind}, can be exported only as a "
            "SavedModel. For LoRA, run `keras-bert merge` first."
        )
    return network(model)


def weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    return {weight.path: to_numpy(weight.value) for weight in model.weights}


def encoder_of(model: keras.Model) -> Encoder:
    """Returns the `Encoder` of a model, which may be the model itself."""
    return getattr(model, "encoder", model)


def to_numpy(tensor: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(tensor)
