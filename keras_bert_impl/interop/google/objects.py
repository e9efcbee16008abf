"""Object-based checkpoints, as in the TensorFlow 2 Model Garden and TF Hub SavedModels.

Variables are found by the name each had in its program (`full_name` in the object graph). The path
through the objects, in contrast, depends on how the encoder was built:
`encoder/layer_with_weights-4/...`, `encoder/_transformer_layers/0/...` and, in a SavedModel,
`variables/5` are the same matrix. Sources: tf-models-official 2.20,
`official/nlp/modeling/networks` and `official/nlp/tools/tf1_bert_checkpoint_converter_lib.py`; for
the first SavedModels, `official/nlp/bert_modeling.py` of 2.1.0.dev1 (`BertModel`, 2019) and
`official/nlp/modeling` of 2.2.0 (`TransformerEncoder`, 2020).
"""

import dataclasses
import math
import re

from keras_bert_impl.interop.google.names import Name, dense, layer_norm
from keras_bert_impl.interop.google.tensors import Place
from keras_bert_impl.io.errors import InputError

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_MAX_NAME = 1_000  # characters
_NO_WEIGHTS = ("int32", "int64", "bool")
_EMBEDDINGS = {
    "word_embeddings": "word_embeddings",
    "position_embedding": "position_embeddings",
    "type_embeddings": "token_type_embeddings",
}
_FIRST_EMBEDDINGS = {  # of `BertModel`, whose word embeddings are named as above
    "embedding_postprocessor/position_embeddings": "position_embeddings",
    "embedding_postprocessor/type_embeddings": "token_type_embeddings",
}
_IN_A_LAYER = re.compile(r"(^|/)(transformer|encoder/layer_\d+)/")
# Keras numbers layers of the same name in a program: the second model has `word_embeddings_1`.
_COUNT = re.compile(r"(?<!/layer)_\d+(?=/)")
_BERT_LAYER = {
    "self_attention/query": "attention.self.query",
    "self_attention/key": "attention.self.key",
    "self_attention/value": "attention.self.value",
    "self_attention/attention_output": "attention.output.dense",
    "self_attention_output": "attention.output.dense",  # until 2020
    "self_attention_layer_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}
_ALBERT_LAYER = {
    "self_attention/query": "attention.query",
    "self_attention/key": "attention.key",
    "self_attention/value": "attention.value",
    "self_attention/attention_output": "attention.dense",
    "self_attention_output": "attention.dense",
    "self_attention_layer_norm": "attention.LayerNorm",
    "intermediate": "ffn",
    "output": "ffn_output",
    "output_layer_norm": "full_layer_layer_norm",
}


def _encoder(embeddings, projection, pooler):
    names = [
        Name(f"{google}/embeddings", f"{embeddings}.{huggingface}.weight")
        for google, huggingface in _EMBEDDINGS.items()
    ]
    names += [
        Name(google, f"{embeddings}.{huggingface}.weight")
        for google, huggingface in _FIRST_EMBEDDINGS.items()
    ]
    for google in ("embeddings/layer_norm", "embedding_postprocessor/layer_norm"):
        names += layer_norm(google, f"{embeddings}.LayerNorm")
    return names + dense("embedding_projection", projection) + dense("pooler_transform", pooler)


def _layer(google, huggingface, parts):
    names = []
    for ours, theirs in parts.items():
        kind = layer_norm if ours.endswith("layer_norm") else dense
        names += kind(f"{google}/{ours}", f"{huggingface}.{theirs}")
    return names


def _masked_lm(transform, bias):
    return [
        *dense("cls/predictions/transform/dense", f"{transform}.dense"),
        *layer_norm("cls/predictions/transform/LayerNorm", f"{transform}.LayerNorm"),
        Name("cls/predictions/output_bias/bias", bias),
    ]


_NAMES = {
    "bert": [
        *_encoder("bert.embeddings", "bert.embeddings_project", "bert.pooler.dense"),
        *_layer("transformer/layer_#", "bert.encoder.layer.#", _BERT_LAYER),
        *_layer("encoder/layer_#", "bert.encoder.layer.#", _BERT_LAYER),
        *_masked_lm("cls.predictions.transform", "cls.predictions.bias"),
        *dense("next_sentence/logits", "cls.seq_relationship"),
    ],
    "electra": [
        *_encoder("electra.embeddings", "electra.embeddings_project", "electra.pooler.dense"),
        *_layer("transformer/layer_#", "electra.encoder.layer.#", _BERT_LAYER),
        *_masked_lm("generator_predictions", "generator_lm_head.bias"),
    ],
    "albert": [
        *_encoder(
            "albert.embeddings", "albert.encoder.embedding_hidden_mapping_in", "albert.pooler"
        ),
        *_layer(
            "transformer", "albert.encoder.albert_layer_groups.0.albert_layers.0", _ALBERT_LAYER
        ),
        *_masked_lm("predictions", "predictions.bias"),
        *dense("next_sentence/logits", "sop_classifier.classifier"),
    ],
}
# The Model Garden's head has a separate dense layer in the role of BERT's pooler. The encoder's
# `pooler_transform` is then untrained.
_HEAD_POOLER = "next_sentence/pooler_dense"


def object_places(checkpoint):
    """Identifies the model in an object-based checkpoint and locates its tensors.

    Args:
        checkpoint: `Checkpoint`.

    Returns:
        (`model_type` as in a Hugging Face configuration, dict of tensor names to `Place`, number of
        attention heads or None). Variables with an unknown name keep it.

    Raises:
        InputError: the checkpoint has no such model, or two.
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
        if name is None and _IN_A_LAYER.search(full_name):
            raise InputError(
                f"{checkpoint.path}: {full_name:.200} is in no layer of a BERT, ALBERT or ELECTRA; "
                "an encoder of another kind cannot be read."
            )
        if renamed in places:
            raise InputError(
                f"{checkpoint.path}: {key} and {places[renamed].variable} are both called "
                f"{full_name:.200}; a checkpoint of two encoders cannot be read."
            )
        places[renamed] = _place(key, checkpoint.variables[key].shape, name)
    return model_type, places, _num_heads(checkpoint, places)


def _variables(checkpoint):
    """Returns a dict of the model variables' keys in the checkpoint to their full names."""
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
            if len(attribute.full_name) > _MAX_NAME:
                raise InputError(f"{checkpoint.path}: the name of {key:.200} is too long.")
            found[key] = attribute.full_name
    return found


def _of_the_run(key):
    return ".OPTIMIZER_SLOT" in key or "optimizer" in key.split("/")


def _model_type(checkpoint, full_names):
    names = "\n".join(full_names)
    if "transformer/self_attention/query/kernel" in names:
        return "albert"
    if re.search("(transformer|encoder)/layer_0/self_attention/query/kernel", names):
        # A BERT with narrow embeddings is equivalent to an ELECTRA.
        return "electra" if "embedding_projection/kernel" in names else "bert"
    some = ", ".join(f"{name:.80}" for name in names.split("\n")[:3]) or "nothing"
    raise InputError(f"{checkpoint.path} has no BERT, ALBERT or ELECTRA in it, but {some}.")


def _renamed(full_name, names):
    """Returns the `Name` of a variable, and its name in a model directory.

    The name is looked up without the encoder's scope, such as `bert_encoder_v2/`.
    """
    parts = _COUNT.sub("", full_name).split("/")
    for start in range(len(parts)):
        end = "/".join(parts[start:])
        for name in names:
            renamed = name.to_huggingface(end)
            if renamed:
                return name, renamed
    return None, full_name


def _place(key, shape, name):
    """Locates a tensor, merging the heads and their width into one dimension."""
    if name is None or not re.search("self_attention(_output)?/", name.google):
        return Place(key, transpose=name is not None and name.transpose)
    if not name.transpose:  # a bias, [heads, width] or [hidden]
        return Place(key, (math.prod(shape),))
    if len(shape) == 3 and name.google.endswith("attention_output/kernel"):
        return Place(key, (shape[0] * shape[1], shape[2]), transpose=True)
    if len(shape) == 3:
        return Place(key, (shape[0], shape[1] * shape[2]), transpose=True)
    return Place(key, transpose=True)


def _num_heads(checkpoint, places):
    """Returns the number of heads from the first query matrix, `[hidden, heads, width]`."""
    query = next(place for name, place in sorted(places.items()) if ".query.weight" in name)
    shape = checkpoint.variables[query.variable].shape
    return shape[1] if len(shape) == 3 else None
