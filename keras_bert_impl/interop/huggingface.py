"""BERT as the Hugging Face library names it: `config.json` and the tensors of a checkpoint."""

import dataclasses

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.errors import InputError

_FIELDS = {  # EncoderConfig field -> key of config.json
    "vocabulary_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
}
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_ACTIVATIONS |= {"relu": "relu"}
_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
_REQUIRED += ("intermediate_size",)
# Settings that change the arithmetic, with the one value that this encoder computes.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


@dataclasses.dataclass(frozen=True)
class TensorName:
    """Where a variable stands in a checkpoint.

    Args:
        variable: str. Path of the Keras variable.
        tensor: str. Name of the tensor, without the prefix `bert.`.
        transpose: bool. Whether the checkpoint has it the other way around, as PyTorch keeps
            the matrix of a linear layer.
        optional: bool. Whether checkpoints may lack it; the variable then keeps its fresh value.
    """

    variable: str
    tensor: str
    transpose: bool = False
    optional: bool = False


def encoder_config(config, source="config.json"):
    """The `EncoderConfig` in a Hugging Face configuration.

    Args:
        config: dict, the content of `config.json`.
        source: str. What to call it in an error.

    Returns:
        `EncoderConfig`.

    Raises:
        InputError: another kind of model, a missing key, or a setting that this encoder does
            not compute.
    """
    model_type = config.get("model_type", "bert")
    if model_type != "bert":
        raise InputError(f"{source}: model_type is {model_type!r}; only 'bert' can be loaded.")
    missing = [key for key in _REQUIRED if key not in config]
    if missing:
        raise InputError(f"{source}: {', '.join(missing)} is missing.")
    for key, value in _FIXED.items():
        if config.get(key, value) != value:
            raise InputError(f"{source}: {key} is {config[key]!r}; only {value!r} is supported.")
    activation = config.get("hidden_act", "gelu")
    if activation not in list(_ACTIVATIONS):  # a list, for what has no hash
        raise InputError(
            f"{source}: hidden_act is {activation!r}; supported are {', '.join(_ACTIVATIONS)}."
        )
    fields = {field: config[key] for field, key in _FIELDS.items() if config.get(key) is not None}
    try:
        return EncoderConfig(activation=_ACTIVATIONS[activation], **fields)
    except (InputError, TypeError) as error:
        raise InputError(f"{source}: {error}") from error


def read_encoder_config(directory):
    """The `EncoderConfig` of a model directory.

    Args:
        directory: `ModelDirectory`.

    Returns:
        `EncoderConfig`.

    Raises:
        InputError: as of `encoder_config`; or the weights have fewer layers. A damaged number of
            layers is found here, before so many are made.
    """
    config = encoder_config(directory.config, directory.path / "config.json")
    last = f"encoder.layer.{config.num_layers - 1}.output.dense.weight"
    if directory.shape(last) is None:
        raise InputError(
            f"{directory.path}: tensor {last} is missing; by config.json there are "
            f"{config.num_layers} layers."
        )
    return config


def huggingface_config(config, architecture, **more):
    """The content of a `config.json` for an `EncoderConfig`.

    Args:
        config: `EncoderConfig`.
        architecture: str, the class that `transformers` should make, such as `"BertModel"`.
        **more: further keys, such as `id2label`.

    Returns:
        dict.
    """
    activation = next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == config.activation)
    return {
        "architectures": [architecture],
        "model_type": "bert",
        **{key: getattr(config, field) for field, key in _FIELDS.items()},
        "hidden_act": activation,
        "position_embedding_type": "absolute",
        **more,
    }


def encoder_tensors(config):
    """Names of all tensors of an encoder.

    Args:
        config: `EncoderConfig`.

    Returns:
        list of `TensorName`.
    """
    names = [
        TensorName("embeddings/token_embeddings", "embeddings.word_embeddings.weight"),
        TensorName("embeddings/position_embeddings", "embeddings.position_embeddings.weight"),
        TensorName("embeddings/segment_embeddings", "embeddings.token_type_embeddings.weight"),
        *_layer_norm("embeddings/layer_norm", "embeddings.LayerNorm"),
    ]
    for index in range(config.num_layers):
        ours, theirs = f"layer_{index}", f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            names += _dense(f"{ours}/attention/{part}", f"{theirs}.attention.self.{part}")
        names += _dense(f"{ours}/attention/output", f"{theirs}.attention.output.dense")
        names += _layer_norm(
            f"{ours}/attention_layer_norm", f"{theirs}.attention.output.LayerNorm"
        )
        names += _dense(f"{ours}/intermediate", f"{theirs}.intermediate.dense")
        names += _dense(f"{ours}/output", f"{theirs}.output.dense")
        names += _layer_norm(f"{ours}/output_layer_norm", f"{theirs}.output.LayerNorm")
    if config.use_pooler:
        # Checkpoints of a masked language model alone have no pooler.
        names += _dense("pooler/dense", "pooler.dense", optional=True)
    return names


def head_tensors(head):
    """Names of the tensors of a head; a checkpoint without it is a base model to tune.

    Args:
        head: `"masked_lm"`, `"next_sentence"` or `"classifier"`.

    Returns:
        list of `TensorName`, all optional.
    """
    if head == "masked_lm":
        return [
            *_dense("masked_lm/dense", "cls.predictions.transform.dense", optional=True),
            *_layer_norm(
                "masked_lm/layer_norm", "cls.predictions.transform.LayerNorm", optional=True
            ),
            TensorName("masked_lm/output_bias", "cls.predictions.bias", optional=True),
        ]
    if head == "next_sentence":
        return _dense("next_sentence/dense", "cls.seq_relationship", optional=True)
    if head == "classifier":
        return _dense("classifier/dense", "classifier", optional=True)
    raise ValueError(f"head must be masked_lm, next_sentence or classifier. Received: {head!r}")


def _dense(ours, theirs, optional=False):
    return [
        TensorName(f"{ours}/kernel", f"{theirs}.weight", transpose=True, optional=optional),
        TensorName(f"{ours}/bias", f"{theirs}.bias", optional=optional),
    ]


def _layer_norm(ours, theirs, optional=False):
    return [
        TensorName(f"{ours}/gamma", f"{theirs}.weight", optional=optional),
        TensorName(f"{ours}/beta", f"{theirs}.bias", optional=optional),
    ]
