"""ONNX operators for the layers of an encoder and its heads.

Each function adds the operators of one Keras layer to a `Graph`. A function takes the input tensors
and the path of the layer's weights. Tensors have the same shapes as in Keras.
"""

from typing import Any

import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig

Graph = Any  # onnx.Graph or litert.Graph
Tensor = Any  # a tensor name, or a TensorFlow tensor
Tensors = dict[str, Tensor]

# Same value as in `layers.attention`.
_HIDDEN = -3e4
_FUSED_GELUS = {"gelu": "com.microsoft.BiasGelu", "gelu_tanh": "com.microsoft.FastGelu"}


def dense(graph: Graph, inputs: Tensor, name: str, activation: str | None = None) -> Tensor:
    """Adds `keras.layers.Dense`."""
    outputs = graph.add("MatMul", inputs, graph.weight(f"{name}/kernel"))
    if graph.has(f"{name}/bias"):
        bias = graph.weight(f"{name}/bias")
        if graph.fused and activation in _FUSED_GELUS:
            return graph.add(_FUSED_GELUS[activation], outputs, bias)
        outputs = graph.add("Add", outputs, bias)
    return _ACTIVATIONS[activation](graph, outputs)


def _add_gelu(graph, inputs):
    # ONNX runtimes and LiteRT fuse these operators into GELU. LiteRT requires this order.
    erf = graph.add("Erf", graph.add("Div", inputs, 2**0.5))
    return graph.add("Mul", graph.add("Mul", inputs, 0.5), graph.add("Add", erf, 1.0))


def _add_gelu_tanh(graph, inputs):
    cube = graph.add("Mul", graph.add("Mul", inputs, inputs), inputs)
    inner = graph.add("Add", inputs, graph.add("Mul", cube, 0.044715))
    tanh = graph.add("Tanh", graph.add("Mul", inner, (2 / np.pi) ** 0.5))
    return graph.add("Mul", graph.add("Mul", inputs, graph.add("Add", tanh, 1.0)), 0.5)


_ACTIVATIONS = {
    None: lambda graph, inputs: inputs,
    "linear": lambda graph, inputs: inputs,
    "gelu": _add_gelu,
    "gelu_tanh": _add_gelu_tanh,
    "relu": lambda graph, inputs: graph.add("Relu", inputs),
    "tanh": lambda graph, inputs: graph.add("Tanh", inputs),
}


def layer_norm(graph: Graph, inputs: Tensor, name: str, epsilon: float) -> Tensor:
    """Adds `keras.layers.LayerNormalization`, always in float32."""
    beta = [graph.weight(f"{name}/beta")] if graph.has(f"{name}/beta") else []
    gamma = graph.weight(f"{name}/gamma")
    return graph.add("LayerNormalization", inputs, gamma, *beta, axis=-1, epsilon=epsilon)


def _add_and_norm(graph, inputs, update, name, epsilon):
    if not graph.fused:
        return layer_norm(graph, graph.add("Add", update, inputs), name, epsilon)
    beta = graph.weight(f"{name}/beta") if graph.has(f"{name}/beta") else ""
    return graph.add(
        "com.microsoft.SkipLayerNormalization",
        *(update, inputs, graph.weight(f"{name}/gamma"), beta),
        epsilon=epsilon,
    )


# === Embeddings ===


def embeddings(graph: Graph, config: EncoderConfig, features: Tensors) -> Tensor:
    """Adds `layers.Embeddings`. Returns [batch, length, hidden]."""
    with_bias = config.embedding_norm and config.use_bias
    if graph.fused and config.rotary_base is None and with_bias:
        outputs = _add_fused_embeddings(graph, config, features)
    else:
        outputs = _add_embeddings(graph, config, features)
    if config.embedding_dim is not None:
        outputs = dense(graph, outputs, "embeddings/projection")
    return graph.add("Add", outputs, _mark_invalid_ids(graph, config, features))


def _mark_invalid_ids(graph, config, features):
    """Returns NaN for each token with an invalid id and 0 for other tokens, [batch, length, 1].

    Runtimes do not check ids. The NaN makes an invalid id visible in the outputs.
    """
    limits = {"input_ids": config.vocabulary_size}
    if "token_type_ids" in features:
        limits["token_type_ids"] = config.num_segments
    is_valid = None
    for name, limit in limits.items():
        inside = graph.add(
            "And",
            graph.add("GreaterOrEqual", features[name], 0),
            graph.add("LessOrEqual", features[name], limit - 1),
        )
        is_valid = inside if is_valid is None else graph.add("And", is_valid, inside)
    return graph.add("Unsqueeze", graph.add("Where", is_valid, 0.0, float("nan")), [2])


def _add_embeddings(graph, config, features):
    ids = features["input_ids"]
    total = graph.add("Gather", graph.weight("embeddings/token_embeddings"), ids)
    if config.num_segments:
        # Without segment ids, all tokens are in segment 0.
        segments = features.get("token_type_ids", 0)
        table = graph.weight("embeddings/segment_embeddings")
        total = graph.add("Add", total, graph.add("Gather", table, segments))
    if config.rotary_base is None:
        table = graph.weight("embeddings/position_embeddings")
        if config.position_offset:
            rows = graph.add("Gather", table, _compute_positions(graph, config, ids))
        else:
            length = graph.add("Shape", ids, start=1, end=2)
            rows = graph.add("Slice", table, [0], length, [0])
        total = graph.add("Add", total, rows)
    # ONNX Runtime fuses an addition only if the shapes are known to be equal.
    graph.declare(total, ["batch", "length", config.embedding_dim or config.hidden_dim])
    if not config.embedding_norm:
        return total
    return layer_norm(graph, total, "embeddings/layer_norm", config.layer_norm_epsilon)


def _add_fused_embeddings(graph, config, features):
    ids, segments, table, positions = features["input_ids"], "", "", []
    if config.num_segments:
        table = graph.weight("embeddings/segment_embeddings")
        segments = features.get("token_type_ids") or graph.add("Sub", ids, ids)
        segments = graph.cast(segments, "int32")
    if config.position_offset:
        positions = ["", graph.cast(_compute_positions(graph, config, ids), "int32")]
    return graph.add(
        "com.microsoft.EmbedLayerNormalization",
        graph.cast(ids, "int32"),
        segments,
        graph.weight("embeddings/token_embeddings"),
        graph.weight("embeddings/position_embeddings"),
        table,
        graph.weight("embeddings/layer_norm/gamma"),
        graph.weight("embeddings/layer_norm/beta"),
        *positions,
        epsilon=config.layer_norm_epsilon,
        num_outputs=2,
    )


def _compute_positions(graph, config, ids):
    """Returns the position of each token, int64 [batch, length]. Padding is not counted."""
    is_real = graph.add("Not", graph.add("Equal", ids, config.pad_token_id))
    is_real = graph.cast(is_real, "float32")  # TensorRT accumulates only floating-point numbers
    count = graph.cast(graph.add("Mul", graph.add("CumSum", is_real, 1), is_real), "int64")
    return graph.add("Add", count, config.position_offset - 1)


# === Attention ===


class Attention:
    """Adds `layers.SelfAttention` for each block. All blocks share one `layers.AttentionBias`."""

    def __init__(self, graph: Graph, config: EncoderConfig, features: Tensors) -> None:
        self.graph = graph
        self.config = config
        self._mask = features["attention_mask"]
        self._length = graph.add("Shape", features["input_ids"], start=1, end=2)
        self._shared: Tensors = {}

    def __call__(self, inputs: Tensor, index: int, name: str) -> Tensor:
        """Returns the attention output of block `index`, [batch, length, hidden]."""
        if self.graph.fused and self.config.rotary_base is None:
            outputs = self._add_fused_attention(inputs, name)
        else:
            outputs = self._add_attention(inputs, index, name)
        return dense(self.graph, outputs, f"{name}/output")

    def _add_fused_attention(self, inputs, name):
        graph, parts = self.graph, [f"{name}/{part}" for part in ("query", "key", "value")]
        bias = ""
        if self.config.use_bias:
            bias = graph.weight(*(f"{part}/bias" for part in parts))
        return graph.add(
            "com.microsoft.Attention",
            inputs,
            graph.weight(*(f"{part}/kernel" for part in parts)),
            bias,
            self._make_once("mask", lambda: graph.cast(self._mask, "int32")),
            num_heads=self.config.num_heads,
            unidirectional=int(self.config.causal),
            mask_filter_value=_HIDDEN,
        )

    def _add_attention(self, inputs, index, name):
        graph, config = self.graph, self.config
        width = config.hidden_dim // config.num_heads

        def split_heads(part, order=(0, 2, 1, 3)):
            rows = dense(graph, inputs, f"{name}/{part}")
            rows = graph.add("Reshape", rows, [0, 0, config.num_heads, width])
            return graph.add("Transpose", rows, perm=list(order))

        query, value = split_heads("query"), split_heads("value")  # [batch, heads, length, width]
        base = config.rotary_base_of(index)
        if base is None:
            key = split_heads("key", (0, 2, 3, 1))  # [batch, heads, width, length]
        else:
            query = self._add_rotation(query, base)
            key = graph.add(
                "Transpose", self._add_rotation(split_heads("key"), base), perm=[0, 1, 3, 2]
            )
        # Scaling first avoids an overflow in float16.
        query = graph.add("Mul", query, width**-0.5)
        scores = graph.add("Add", graph.add("MatMul", query, key), self._get_bias(index))
        weights = graph.as_computed(graph.add("Softmax", graph.as_float32(scores), axis=-1))
        outputs = graph.add("Transpose", graph.add("MatMul", weights, value), perm=[0, 2, 1, 3])
        return graph.add("Reshape", outputs, [0, 0, config.hidden_dim])

    def _get_bias(self, index):
        """Returns the attention bias, [batch, 1, 1 or length, length]; 0 for visible keys."""
        return self._make_once(
            f"bias {self.config.is_local(index)}", lambda: self._make_bias(index)
        )

    def _make_bias(self, index):
        graph, config = self.graph, self.config
        visible = graph.add("Unsqueeze", graph.cast(self._mask, "bool"), [1, 2])
        if config.is_local(index) or config.causal:
            keys = _add_range(graph, self._length)
            distance = graph.add("Sub", graph.add("Unsqueeze", keys, [1]), keys)  # [query, key]
            if config.is_local(index):
                near = graph.add("LessOrEqual", graph.add("Abs", distance), config.window)
                visible = graph.add("And", visible, near)
            if config.causal:
                visible = graph.add("And", visible, graph.add("GreaterOrEqual", distance, 0))
        return graph.add("Where", visible, 0.0, _HIDDEN)

    def _add_rotation(self, inputs, base):
        """Adds `layers.RotaryPositions`, in float32."""
        graph, width = self.graph, self.config.hidden_dim // self.config.num_heads
        cosine, sine = self._make_once(f"angles {base}", lambda: self._make_angles(base, width))
        inputs = graph.as_float32(inputs)
        first = graph.add("Slice", inputs, [0], [width // 2], [3])
        second = graph.add("Slice", inputs, [width // 2], [width], [3])
        rotated = (
            graph.add("Sub", graph.add("Mul", first, cosine), graph.add("Mul", second, sine)),
            graph.add("Add", graph.add("Mul", second, cosine), graph.add("Mul", first, sine)),
        )
        return graph.as_computed(graph.add("Concat", *rotated, axis=3))

    def _make_angles(self, base, width):
        """Returns the cosines and sines, [length, width / 2]."""
        graph = self.graph
        speeds = base ** -np.linspace(0.0, 1.0, width // 2, endpoint=False)
        positions = graph.add("Unsqueeze", _add_range(graph, self._length), [1])
        positions = graph.cast(positions, "float32")
        angles = graph.add("Mul", positions, speeds.astype("float32"))
        return graph.add("Cos", angles), graph.add("Sin", angles)

    def _make_once(self, key, make):
        """Returns the tensor with this key, which `make` creates once for all blocks."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]


def _add_range(graph, length):
    """Returns the int64 tensor [0, 1, ..., length - 1]. `length` has the shape `[1]`."""
    return graph.add("Range", 0, graph.add("Squeeze", length), 1)


# === Blocks ===


def block(
    graph: Graph, config: EncoderConfig, inputs: Tensor, index: int, attention: Attention
) -> Tensor:
    """Adds the `layers.TransformerBlock` with this index. Returns [batch, length, hidden]."""
    group = index * (config.num_layer_groups or config.num_layers) // config.num_layers
    name, epsilon = f"layer_{group}", config.layer_norm_epsilon
    if not config.pre_norm:
        update = attention(inputs, index, f"{name}/attention")
        attended = _add_and_norm(graph, inputs, update, f"{name}/attention_layer_norm", epsilon)
        update = _add_feed_forward(graph, config, attended, name)
        return _add_and_norm(graph, attended, update, f"{name}/output_layer_norm", epsilon)
    normed = inputs
    if config.has_attention_norm(index):
        normed = layer_norm(graph, inputs, f"{name}/attention_layer_norm", epsilon)
    attended = graph.add("Add", attention(normed, index, f"{name}/attention"), inputs)
    normed = layer_norm(graph, attended, f"{name}/output_layer_norm", epsilon)
    return graph.add("Add", _add_feed_forward(graph, config, normed, name), attended)


def _add_feed_forward(graph, config, inputs, name):
    outputs = dense(graph, inputs, f"{name}/intermediate", config.activation)
    if config.gated:
        outputs = graph.add("Mul", outputs, dense(graph, inputs, f"{name}/gate"))
    return dense(graph, outputs, f"{name}/output")


# === Pooling ===


def first_token(graph: Graph, states: Tensor) -> Tensor:
    return graph.add("Gather", states, 0, axis=1)


def last_token(graph: Graph, states: Tensor, mask: Tensor) -> Tensor:
    positions = _add_range(graph, graph.add("Shape", mask, start=1, end=2))
    positions = graph.cast(positions, "float32")
    real = graph.add("Mul", graph.cast(mask, "float32"), positions)  # [batch, length]
    distance = graph.add("Sub", positions, graph.add("ReduceMax", real, axes=[1]))
    is_last = graph.add("LessOrEqual", graph.add("Abs", distance), np.float32(0))
    states = graph.add("Where", graph.add("Unsqueeze", is_last, [2]), states, 0.0)
    return graph.add("ReduceSum", states, [1], keepdims=0)


def mean_pooling(graph: Graph, states: Tensor, mask: Tensor) -> Tensor:
    total, number = _sum_weighted(graph, states, graph.cast(mask, "float32"))
    return graph.as_computed(graph.add("Div", total, number))


def mean_sqrt_pooling(graph: Graph, states: Tensor, mask: Tensor) -> Tensor:
    total, number = _sum_weighted(graph, states, graph.cast(mask, "float32"))
    return graph.as_computed(graph.add("Div", total, graph.add("Sqrt", number)))


def weighted_mean_pooling(graph: Graph, states: Tensor, mask: Tensor) -> Tensor:
    places = graph.cast(_add_range(graph, graph.add("Shape", mask, start=1, end=2)), "float32")
    weights = graph.add("Mul", graph.cast(mask, "float32"), graph.add("Add", places, np.float32(1)))
    total, number = _sum_weighted(graph, states, weights)
    return graph.as_computed(graph.add("Div", total, number))


def _sum_weighted(graph, states, weights):
    """Returns (weighted sum of the states [batch, hidden], sum of the weights)."""
    weights = graph.add("Unsqueeze", weights, [2])  # [batch, length, 1]
    total = graph.add("Mul", graph.as_float32(states), weights)
    total = graph.add("ReduceSum", total, [1], keepdims=0)
    number = graph.add("ReduceSum", weights, [1], keepdims=0)
    return total, graph.add("Max", number, np.float32(1))


def max_pooling(graph: Graph, states: Tensor, mask: Tensor) -> Tensor:
    real = graph.cast(graph.add("Unsqueeze", mask, [2]), "bool")
    largest = graph.add("Where", real, states, float("-inf"))
    largest = graph.add("ReduceMax", largest, axes=[1], keepdims=0)
    any_real = graph.add("ReduceMax", graph.cast(mask, "float32"), axes=[1])
    any_real = graph.cast(any_real, "bool")  # [batch, 1]
    return graph.add("Where", any_real, largest, 0.0)
