"""Encoders and task models, written operation by operation for other runtimes."""

import keras
import numpy as np

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.heads import needs_pooler
from keras_bert_impl.serving.network import layers

_NO_ROW = np.float32(-1e9)  # the logit of a choice that is padding, as of `layers.ChoiceLogits`


def write_network(model, graph):
    """Writes the network of a model, operation by operation, from its configuration and weights.

    Its inputs are those of `optimum`'s exports, whole numbers `[batch, length]` of any size:
    `input_ids`, `attention_mask` (1 for a real token, else 0) and, where the encoder has several
    segments, `token_type_ids`. Of `MultipleChoice` they are `[batch, choices, length]`; of a model
    that pools windows there are these, too: `[batch, windows, length]`, or `[batch, choices,
    windows, length]`. What comes out is float32:

    | model | outputs |
    |---|---|
    | `Encoder` | `last_hidden_state` `[batch, length, hidden]`, and with a pooler `pooler_output` |
    | `TextClassifier`, `NextSentencePredictor` | `logits` `[batch, classes]` |
    | `TokenClassifier` | `logits` `[batch, length, labels]`; with a CRF these are its emissions |
    | `QuestionAnswerer` | `start_logits`, `end_logits` `[batch, length]` |
    | `MultipleChoice` | `logits` `[batch, choices]` |
    | `MaskedLM` | `logits` `[batch, length, vocabulary]` |
    | `TextEmbedder` | `sentence_embedding` `[batch, dim]` |

    Hidden states and logits at padding are of no meaning.

    Args:
        model: `Encoder` or one of those above.
        graph: `onnx.graph.Graph` or `litert.graph.Graph`, with `weights_of(model)`.
    """
    _NETWORKS[kind_of(model)](graph, encoder_of(model).config, model)


def weights_of(model):
    """dict of the paths of a model's weights to numpy arrays."""
    return {weight.path: keras.ops.convert_to_numpy(weight.value) for weight in model.weights}


def check_model(model):
    """Raises an `InputError` for a model of another kind, or with an adapter."""
    kind_of(model)
    adapter = encoder_of(model).config.adapter
    if adapter is not None:
        raise InputError(
            f"a model with an adapter, {adapter.kind}, has no such form here; LoRA's can be made "
            "an ordinary model by `keras-bert merge`."
        )


def kind_of(model):
    """str. The class in the table of `write_network` that a model is of; as a name, because tasks
    import `serving`, and not the other way around.

    Raises:
        InputError: it is of none.
    """
    for kind in type(model).__mro__:
        if kind.__name__ in _NETWORKS:
            return kind.__name__
    raise InputError(f"a {type(model).__name__} has no form here but a SavedModel.")


def encoder_of(model):
    """The `Encoder` of a model, or the model, if it is one."""
    return getattr(model, "encoder", model)


def input_rank(model):
    """int. How many dimensions the inputs have; those of a `TextEmbedder` are no groups."""
    return len(model.input["token_ids"].shape) - (kind_of(model) == "TextEmbedder")


def input_names(config):
    """dict of the names of the inputs to those of an encoder's features."""
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    return names | ({"token_type_ids": "segment_ids"} if config.num_segments > 1 else {})


# === The encoder ===


def _inputs(graph, config, group=()):
    shape = ["batch", *group, "length"]
    return {name: graph.input(name, shape) for name in input_names(config)}


def _merged(graph, features, rank):
    """The rows of groups, [batch * group, ..., length], of features of a rank,
    [batch, group, ..., length]."""
    rest = graph.add("Shape", features["input_ids"], start=2, end=rank)
    shape = graph.add("Concat", [-1], rest, axis=0)
    return {name: graph.add("Reshape", feature, shape) for name, feature in features.items()}


def _states(graph, config, features):
    """list of the embeddings and every layer's output, [batch, length, hidden]."""
    states = [layers.embeddings(graph, config, features)]
    attention = layers.Attention(graph, config, features)
    for index in range(config.num_layers):
        states.append(layers.block(graph, config, states[-1], index, attention))
    if config.final_norm:
        epsilon = config.layer_norm_epsilon
        states[-1] = layers.layer_norm(graph, states[-1], "final_layer_norm", epsilon)
    return states


def _pooled(graph, config, features, use_pooler):
    """One vector for each row, [batch, hidden]."""
    states = _states(graph, config, features)[-1]
    return _pool(graph, config, states, features, use_pooler)


def _pool(graph, config, states, features, use_pooler):
    if config.pooled_by == "mean":
        pooled = layers.mean_pooling(graph, states, features["attention_mask"])
    elif config.pooled_by == "last":
        pooled = layers.last_token(graph, states, features["attention_mask"])
    else:
        pooled = layers.first_token(graph, states)
    return layers.dense(graph, pooled, "pooler/dense", "tanh") if use_pooler else pooled


def _classified(graph, inputs, head):
    """`layers.ClassificationHead`, in float32."""
    if head.activation is not None:
        inputs = layers.dense(graph, inputs, f"{head.name}/transform", head.activation)
    if head.layer_norm_epsilon is not None:
        epsilon = head.layer_norm_epsilon
        inputs = layers.layer_norm(graph, inputs, f"{head.name}/layer_norm", epsilon)
    return graph.as_float32(layers.dense(graph, inputs, f"{head.name}/dense"))


# === Models ===


def _encoder(graph, config, model):
    features = _inputs(graph, config)
    states = _states(graph, config, features)[-1]
    graph.output("last_hidden_state", states, ["batch", "length", config.hidden_dim])
    if config.use_pooler:
        pooled = _pool(graph, config, states, features, use_pooler=True)
        graph.output("pooler_output", pooled, ["batch", config.hidden_dim])


def _group(model):
    """Names of the dimensions of groups that a model's inputs have."""
    return ["windows"] if model.has_windows else []


def _text_classifier(graph, config, model):
    features = _inputs(graph, config, _group(model))
    def of_rows(rows):
        if model.pooling is None:
            return _pooled(graph, config, rows, needs_pooler(config))
        states = _states(graph, config, rows)[-1]
        mask = graph.add("Unsqueeze", rows["attention_mask"], [2])  # a token is a window of one
        return _pool_windows(graph, states, mask, config.hidden_dim, model.pooling, "pooling")

    vectors = _of_texts(graph, features, model, of_rows)
    logits = _classified(graph, vectors, model.head_layer)
    graph.output("logits", logits, ["batch", model.num_classes])


def _of_texts(graph, features, model, vectors_of_rows, dim=None):
    """One vector for each text, [texts, dim], of features [texts, (windows,) length]."""
    if not model.has_windows:
        return vectors_of_rows(features)
    rows = vectors_of_rows(_merged(graph, features, rank=3))
    dim = dim or model.config.hidden_dim
    return _pool_windows(graph, rows, features["attention_mask"], dim, model.long_texts)


def _pool_windows(graph, rows, mask, dim, pooling, name="pool_windows"):
    """`layers.PoolWindows`, in float32; rows are [texts * windows, dim]."""
    shape = graph.add("Concat", graph.add("Shape", mask, end=2), [dim], axis=0)
    vectors = graph.add("Reshape", graph.as_float32(rows), shape)  # [texts, windows, dim]
    real = graph.add("ReduceMax", mask, axes=[2])  # [batch, windows, 1]
    is_real = graph.cast(real, "bool")
    if pooling == "max":
        vectors = graph.add("Where", is_real, vectors, _NO_ROW)
        return graph.as_computed(graph.add("ReduceMax", vectors, axes=[1], keepdims=0))
    if pooling == "mean":
        real = graph.cast(real, "float32")
        number = graph.add("Max", graph.add("ReduceSum", real, [1]), np.float32(1))
        weights = graph.add("Div", real, number)
    else:
        hidden = layers.dense(graph, graph.as_computed(vectors), f"{name}/dense", "tanh")
        scores = graph.as_float32(layers.dense(graph, hidden, f"{name}/score"))
        weights = graph.add("Softmax", graph.add("Where", is_real, scores, _NO_ROW), axis=1)
    pooled = graph.add("ReduceSum", graph.add("Mul", weights, vectors), [1], keepdims=0)
    return graph.as_computed(pooled)


def _next_sentence(graph, config, model):
    vectors = _pooled(graph, config, _inputs(graph, config), use_pooler=True)
    graph.output("logits", _classified(graph, vectors, model.get_layer(model.head)), ["batch", 2])


def _token_classifier(graph, config, model):
    states = _states(graph, config, _inputs(graph, config))[-1]
    logits = _classified(graph, states, model.head_layer)
    graph.output("logits", logits, ["batch", "length", model.num_classes])


def _question_answerer(graph, config, model):
    states = _states(graph, config, _inputs(graph, config))[-1]
    logits = _classified(graph, states, model.get_layer(model.head))  # [batch, length, 2]
    for number, name in enumerate(("start_logits", "end_logits")):
        graph.output(name, graph.add("Gather", logits, number, axis=2), ["batch", "length"])


def _multiple_choice(graph, config, model):
    features = _inputs(graph, config, ["choices", *_group(model)])
    texts = _merged(graph, features, input_rank(model))
    vectors = _of_texts(
        graph, texts, model, lambda rows: _pooled(graph, config, rows, config.use_pooler)
    )
    logits = _classified(graph, vectors, model.head_layer)  # [batch * choices, 1]
    mask = features["attention_mask"]
    logits = graph.add("Reshape", logits, graph.add("Shape", mask, end=2))
    within = list(range(2, input_rank(model)))
    is_choice = graph.cast(graph.add("ReduceMax", mask, axes=within, keepdims=0), "bool")
    logits = graph.add("Where", is_choice, logits, _NO_ROW)
    graph.output("logits", logits, ["batch", "choices"])


def _masked_lm(graph, config, model):
    outputs = _states(graph, config, _inputs(graph, config))[-1]
    head = model.get_layer("masked_lm")
    if head.dense is not None:
        activation = head.dense.activation.__name__
        outputs = layers.dense(graph, outputs, "masked_lm/dense", activation)
        epsilon = config.layer_norm_epsilon
        outputs = layers.layer_norm(graph, outputs, "masked_lm/layer_norm", epsilon)
    table = graph.weight("embeddings/token_embeddings")
    logits = graph.add("MatMul", outputs, graph.add("Transpose", table, perm=[1, 0]))
    logits = graph.add("Add", logits, graph.weight("masked_lm/output_bias"))
    graph.output("logits", logits, ["batch", "length", config.vocabulary_size])


def _text_embedder(graph, config, model):
    def of_rows(rows):
        states = _mixed(graph, _states(graph, config, rows)[-model.num_layers :], model)
        if model.pooling == "cls":
            return layers.first_token(graph, states)
        pool = {"mean": layers.mean_pooling, "max": layers.max_pooling}[model.pooling]
        return pool(graph, states, rows["attention_mask"])

    features = _inputs(graph, config, _group(model))
    pooled = model.config.hidden_dim * (model.num_layers if model.layer_mix is None else 1)
    vectors = graph.as_float32(_of_texts(graph, features, model, of_rows, pooled))
    for layer, projection in zip(model.projection_layers, model.projections):
        inputs = graph.as_computed(vectors)
        if projection["kind"] == "layer_norm":
            outputs = layers.layer_norm(graph, inputs, layer.name, layer.epsilon)
        else:
            outputs = layers.dense(graph, inputs, layer.name, projection["activation"])
        vectors = graph.as_float32(outputs)
    if model.normalize:
        length = graph.add("ReduceL2", vectors, axes=[-1])
        vectors = graph.add("Div", vectors, graph.add("Max", length, np.float32(1e-12)))
    if model.truncate_dim is not None:
        vectors = graph.add("Slice", vectors, [0], [model.truncate_dim], [1])
    graph.output("sentence_embedding", vectors, ["batch", model.dim])


def _mixed(graph, states, model):
    """`layers.LayerMix` of the states of several layers, or all of them beside each other."""
    if model.layer_mix is None:
        return graph.add("Concat", *states, axis=2) if len(states) > 1 else states[0]
    weights = graph.array(model.layer_mix.kernel.path)
    parts = [graph.add("Mul", state, float(w)) for state, w in zip(states, weights / weights.sum())]
    return graph.add("Sum", *parts)


_NETWORKS = {
    "Encoder": _encoder,
    "TextClassifier": _text_classifier,
    "NextSentencePredictor": _next_sentence,
    "TokenClassifier": _token_classifier,
    "QuestionAnswerer": _question_answerer,
    "MultipleChoice": _multiple_choice,
    "MaskedLM": _masked_lm,
    "TextEmbedder": _text_embedder,
}
