"""Checkpoints of objects, as TensorFlow 2's Model Garden and the SavedModels of TF Hub have.

The variables are found by the name that each had in its program (`full_name` in the graph of
objects). The path through the objects, the other way, depends on how the encoder was made:
`encoder/layer_with_weights-4/...`, `encoder/_transformer_layers/0/...` and, in a SavedModel,
`variables/5` are the same matrix. Source: tf-models-official 2.20,
`official/nlp/modeling/networks` and `official/nlp/tools/tf1_bert_checkpoint_converter_lib.py`.
"""

import dataclasses
import math

from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.google.index import Variable
from keras_bert_impl.interop.google.names import Name, dense, layer_norm
from keras_bert_impl.interop.google.tensors import Place

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_NO_WEIGHTS = ("int32", "int64", "bool")
_ATTENTION = ("query", "key", "value")


def _encoder(prefix, layer, ours, projection, pooler):
    """Names of an encoder; `ours` are the ends of the names of the parts of a layer."""
    query, output, output_norm, inner, outer, outer_norm = ours
    tables = (
        ("word_embeddings", "word_embeddings"),
        ("position_embedding", "position_embeddings"),
        ("type_embeddings", "token_type_embeddings"),
    )
    embeddings = f"{prefix}.embeddings"
    names = [Name(f"{one}/embeddings", f"{embeddings}.{other}.weight") for one, other in tables]
    names += layer_norm("embeddings/layer_norm", f"{embeddings}.LayerNorm")
    names += dense("embedding_projection", f"{prefix}.{projection}")
    google, huggingface = layer
    huggingface = f"{prefix}.{huggingface}"
    for part in _ATTENTION:
        names += dense(f"{google}/self_attention/{part}", f"{huggingface}.{query}.{part}")
    names += dense(f"{google}/self_attention/attention_output", f"{huggingface}.{output}")
    names += layer_norm(f"{google}/self_attention_layer_norm", f"{huggingface}.{output_norm}")
    names += dense(f"{google}/intermediate", f"{huggingface}.{inner}")
    names += dense(f"{google}/output", f"{huggingface}.{outer}")
    names += layer_norm(f"{google}/output_layer_norm", f"{huggingface}.{outer_norm}")
    return names + dense("pooler_transform", f"{prefix}.{pooler}")


def _masked_lm(transform, bias):
    return [
        *dense("cls/predictions/transform/dense", f"{transform}.dense"),
        *layer_norm("cls/predictions/transform/LayerNorm", f"{transform}.LayerNorm"),
        Name("cls/predictions/output_bias/bias", bias),
    ]


_BERT_LAYER = (
    "attention.self",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
_LAYER = ("transformer/layer_#", "encoder.layer.#")
_ALBERT_LAYER = (
    "attention",
    "attention.dense",
    "attention.LayerNorm",
    "ffn",
    "ffn_output",
    "full_layer_layer_norm",
)
_SHARED_LAYER = ("transformer", "encoder.albert_layer_groups.0.albert_layers.0")
_NAMES = {
    "bert": [
        *_encoder("bert", _LAYER, _BERT_LAYER, "embeddings_project", "pooler.dense"),
        *_masked_lm("cls.predictions.transform", "cls.predictions.bias"),
        *dense("next_sentence/logits", "cls.seq_relationship"),
    ],
    "electra": [
        *_encoder("electra", _LAYER, _BERT_LAYER, "embeddings_project", "pooler.dense"),
        *_masked_lm("generator_predictions", "generator_lm_head.bias"),
    ],
    "albert": [
        *_encoder(
            "albert", _SHARED_LAYER, _ALBERT_LAYER, "encoder.embedding_hidden_mapping_in", "pooler"
        ),
        *_masked_lm("predictions", "predictions.bias"),
        *dense("next_sentence/logits", "sop_classifier.classifier"),
    ],
}
# The Model Garden's head has a dense layer of its own where BERT has the pooler. The encoder's,
# `pooler_transform`, is then a layer that nothing trained.
_HEAD_POOLER = "next_sentence/pooler_dense"


def object_places(checkpoint):
    """What model is in a checkpoint of objects, and where its tensors stand.

    Args:
        checkpoint: `Checkpoint`.

    Returns:
        `model_type` as in a Hugging Face configuration; dict of the names of tensors to `Place`;
        number of attention heads. Variables of no known name keep it.

    Raises:
        InputError: no such model in it, or two.
    """
    variables = _variables(checkpoint)
    model_type = _model_type(checkpoint, variables.values())
    names = _NAMES[model_type]
    if any(_HEAD_POOLER in name for name in variables.values()):
        names = [
            dataclasses.replace(n, google=n.google.replace("pooler_transform", _HEAD_POOLER))
            for n in names
        ]
    places = {}
    for key, full_name in sorted(variables.items()):
        name, renamed = _renamed(full_name, names)
        if renamed in places:
            raise InputError(
                f"{checkpoint.path}: {key} and {places[renamed].variable} are both called "
                f"{full_name:.200}; a checkpoint of two encoders cannot be read."
            )
        places[renamed] = _place(key, checkpoint.variables[key].shape, name)
    return model_type, places, _num_heads(checkpoint, places)


def _variables(checkpoint):
    """dict of the keys of the model's variables in the checkpoint to their full names."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    graph = TrackableObjectGraph()
    try:
        graph.ParseFromString(checkpoint.read(OBJECT_GRAPH))
    except (DecodeError, TypeError) as error:
        raise InputError(f"{checkpoint.path}: {OBJECT_GRAPH} is damaged: {error}.") from error
    found = {}
    for node in graph.nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            variable = checkpoint.variables.get(key)
            if variable is None or variable.dtype in _NO_WEIGHTS or _of_the_run(key):
                continue
            found[key] = attribute.full_name
    return found


def _of_the_run(key):
    return ".OPTIMIZER_SLOT" in key or "optimizer" in key.split("/")


def _model_type(checkpoint, full_names):
    names = "\n".join(full_names)
    if "transformer/self_attention/query/kernel" in names:
        return "albert"
    if "transformer/layer_0/self_attention/query/kernel" in names:
        # A BERT with narrow embeddings is what an ELECTRA is.
        return "electra" if "embedding_projection/kernel" in names else "bert"
    some = ", ".join(f"{name:.80}" for name in names.split("\n")[:3]) or "nothing"
    raise InputError(f"{checkpoint.path} has no BERT, ALBERT or ELECTRA in it, but {some}.")


def _renamed(full_name, names):
    """The `Name` of a variable, and its name in a model directory.

    The scope of the encoder, such as `bert_encoder_v2/`, comes before what is looked for.
    """
    parts = full_name.split("/")
    for start in range(len(parts)):
        end = "/".join(parts[start:])
        for name in names:
            renamed = name.to_huggingface(end)
            if renamed:
                return name, renamed
    return None, full_name


def _place(key, shape, name):
    """Heads and their width are two dimensions here, and one in a model directory."""
    if name is None or "self_attention/" not in name.google:
        return Place(key, transpose=name is not None and name.transpose)
    if not name.transpose:  # a bias, [heads, width] or [hidden]
        return Place(key, (math.prod(shape),))
    if len(shape) == 3 and name.google.endswith("attention_output/kernel"):
        return Place(key, (shape[0] * shape[1], shape[2]), transpose=True)
    if len(shape) == 3:
        return Place(key, (shape[0], shape[1] * shape[2]), transpose=True)
    return Place(key, transpose=True)


def _num_heads(checkpoint, places):
    """Of the first query matrix, `[hidden, heads, width]`."""
    query = next(place for name, place in sorted(places.items()) if ".query.weight" in name)
    shape = checkpoint.variables[query.variable].shape
    return shape[1] if len(shape) == 3 else None


def lowercase_variable(checkpoint):
    """What the variable `do_lower_case` of a SavedModel of TF Hub says, or None."""
    key = f"do_lower_case{_VALUE}"
    if checkpoint.variables.get(key) != Variable("bool", ()):
        return None
    return bool(checkpoint.read(key))
