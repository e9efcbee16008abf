"""Object-based checkpoints of the TensorFlow 2 Model Garden, and SavedModels of TF Hub.

Variables are identified by their names in the original program (`full_name` in the object graph).
Object paths depend on the code that built the encoder. For example, the path of one matrix may be
`encoder/layer_with_weights-4/...`, `encoder/_transformer_layers/0/...` or `variables/5`.

Sources:
tf-models-official 2.20, `official/nlp/modeling/networks` and
`official/nlp/tools/tf1_bert_checkpoint_converter_lib.py`; for the first SavedModels,
`official/nlp/bert_modeling.py` of 2.1.0.dev1 (`BertModel`, 2019) and `official/nlp/modeling` of
2.2.0 (`TransformerEncoder`, 2020).
"""

import dataclasses
import math
import re

from keras_bert_impl.checkpoints.interop.google.checkpoint import Checkpoint
from keras_bert_impl.checkpoints.interop.google.named import (
    Location,
    Name,
    dense,
    layer_norm,
    unknown_model,
    unknown_variable,
)
from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS
from keras_bert_impl.utils.errors import InputError

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MAX_NAME = 1_000  # characters
_NO_WEIGHTS = ("int32", "int64", "bool")
_EMBEDDINGS = {
    "word_embeddings/embeddings": "word_embeddings",
    "position_embedding/embeddings": "position_embeddings",
    "type_embeddings/embeddings": "token_type_embeddings",
    # Names in `BertModel`. The name of the word embeddings is the same.
    "embedding_postprocessor/position_embeddings": "position_embeddings",
    "embedding_postprocessor/type_embeddings": "token_type_embeddings",
}
_IN_A_LAYER = re.compile(r"(^|/)(transformer|encoder/layer_\d+)/")
# Keras adds a number to repeated names. The second model in a program has `word_embeddings_1`.
_COUNT = re.compile(r"(?<!/layer)_\d+(?=/)")
_LAYER = {  # layer in a Model Garden block -> layer in a block of this package
    "self_attention/query": "attention/query",
    "self_attention/key": "attention/key",
    "self_attention/value": "attention/value",
    "self_attention/attention_output": "attention/output",
    "self_attention_output": "attention/output",  # name before 2020
    "self_attention_layer_norm": "attention_layer_norm",
    "intermediate": "intermediate",
    "output": "output",
    "output_layer_norm": "output_layer_norm",
}


def _list_encoder(embeddings, projection, pooler):
    names = [
        Name(google, f"{embeddings}.{huggingface}.weight")
        for google, huggingface in _EMBEDDINGS.items()
    ]
    for google in ("embeddings/layer_norm", "embedding_postprocessor/layer_norm"):
        names += layer_norm(google, f"{embeddings}.LayerNorm")
    return names + dense("embedding_projection", projection) + dense("pooler_transform", pooler)


def _list_layer(google, model_type, number):
    names = []
    for part, ours in _LAYER.items():
        kind = layer_norm if part.endswith("layer_norm") else dense
        theirs = LAYOUTS[model_type].block[ours].format(number)
        names += kind(f"{google}/{part}", f"{model_type}.{theirs}")
    return names


def _list_masked_lm(transform, bias):
    return [
        *dense("cls/predictions/transform/dense", f"{transform}.dense"),
        *layer_norm("cls/predictions/transform/LayerNorm", f"{transform}.LayerNorm"),
        Name("cls/predictions/output_bias/bias", bias),
    ]


_NAMES = {
    "bert": [
        *_list_encoder("bert.embeddings", "bert.embeddings_project", "bert.pooler.dense"),
        *_list_layer("transformer/layer_#", "bert", "#"),
        *_list_layer("encoder/layer_#", "bert", "#"),
        *_list_masked_lm("cls.predictions.transform", "cls.predictions.bias"),
        *dense("next_sentence/logits", "cls.seq_relationship"),
    ],
    "electra": [
        *_list_encoder("electra.embeddings", "electra.embeddings_project", "electra.pooler.dense"),
        *_list_layer("transformer/layer_#", "electra", "#"),
        *_list_masked_lm("generator_predictions", "generator_lm_head.bias"),
    ],
    "albert": [
        *_list_encoder(
            "albert.embeddings", "albert.encoder.embedding_hidden_mapping_in", "albert.pooler"
        ),
        *_list_layer("transformer", "albert", 0),
        *_list_masked_lm("predictions", "predictions.bias"),
        *dense("next_sentence/logits", "sop_classifier.classifier"),
    ],
}
# In the Model Garden, the head has a dense layer that replaces BERT's pooler. The encoder's
# `pooler_transform` is untrained in this case.
_HEAD_POOLER = "next_sentence/pooler_dense"


def object_locations(checkpoint: Checkpoint) -> tuple[str, dict[str, Location], int | None]:
    """Detects the model type of an object-based checkpoint, and finds the variable for each tensor.

    Returns:
        (`model_type`, {tensor name: `Location`}, number of attention heads or None). Unknown
        variables keep their names.
    """
    variables = variable_names(checkpoint)
    model_type = _detect_model_type(checkpoint, variables.values())
    names = _NAMES[model_type]
    if any(_HEAD_POOLER in name for name in variables.values()):
        names = [
            dataclasses.replace(n, google=n.google.replace("pooler_transform", _HEAD_POOLER))
            for n in names
        ]
    locations: dict[str, Location] = {}
    for key, full_name in sorted(variables.items()):
        name, renamed = _rename(full_name, names)
        if name is None and _IN_A_LAYER.search(full_name):
            raise unknown_variable(checkpoint.path, full_name)
        if renamed in locations:
            raise InputError(
                f"{checkpoint.path}: {key} and {locations[renamed].variable} are both named "
                f"{full_name:.200}; a checkpoint with two encoders is not supported."
            )
        locations[renamed] = _make_location(key, checkpoint.variables[key].shape, name)
    return model_type, locations, _read_num_heads(checkpoint, locations)


def variable_names(checkpoint: Checkpoint) -> dict[str, str]:
    """Returns the full names of the model variables, keyed by checkpoint key."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    graph = TrackableObjectGraph()
    try:
        graph.ParseFromString(checkpoint.read(OBJECT_GRAPH))
    except (DecodeError, TypeError) as error:
        raise InputError(f"{checkpoint.path}: {OBJECT_GRAPH} is damaged: {error}.") from error
    full_names = {}
    for node in graph.nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            variable = checkpoint.variables.get(key)
            if variable is None or variable.dtype in _NO_WEIGHTS or _is_optimizer_key(key):
                continue
            if len(attribute.full_name) > _MAX_NAME:
                raise InputError(f"{checkpoint.path}: the name of {key:.200} is too long.")
            full_names[key] = attribute.full_name
    return full_names


def _is_optimizer_key(key):
    return ".OPTIMIZER_SLOT" in key or "optimizer" in key.split("/")


def _detect_model_type(checkpoint, full_names):
    names = "\n".join(full_names)
    if "transformer/self_attention/query/kernel" in names:
        return "albert"
    if re.search("(transformer|encoder)/layer_0/self_attention/query/kernel", names):
        # A BERT model with an embedding projection is equivalent to an ELECTRA model.
        return "electra" if "embedding_projection/kernel" in names else "bert"
    raise unknown_model(checkpoint.path, names.split("\n"))


def _rename(full_name, names):
    """Returns (`Name`, Hugging Face name), or (None, full name) for an unknown variable."""
    parts = _COUNT.sub("", full_name).split("/")
    for start in range(len(parts)):
        end = "/".join(parts[start:])
        for name in names:
            renamed = name.to_huggingface(end)
            if renamed:
                return name, renamed
    return None, full_name


def _make_location(key, shape, name):
    # Some checkpoints have separate dimensions for the attention heads and their width.
    if name is None or not re.search("self_attention(_output)?/", name.google):
        return Location(key, transpose=name is not None and name.transpose)
    if not name.transpose:  # The shape of a bias is [heads, width] or [hidden].
        return Location(key, (math.prod(shape),))
    if len(shape) == 3 and name.google.endswith("attention_output/kernel"):
        return Location(key, (shape[0] * shape[1], shape[2]), transpose=True)
    if len(shape) == 3:
        return Location(key, (shape[0], shape[1] * shape[2]), transpose=True)
    return Location(key, transpose=True)


def _read_num_heads(checkpoint, locations):
    """Reads the number of heads from the first query matrix, `[hidden, heads, width]`."""
    query = next(
        location for name, location in sorted(locations.items()) if ".query.weight" in name
    )
    shape = checkpoint.variables[query.variable].shape
    return shape[1] if len(shape) == 3 else None
