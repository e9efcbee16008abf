"""Encoders as the Hugging Face library describes and names them, whatever their kind."""

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.errors import InputError
from keras_bert_impl.interop.layouts import LAYOUTS
from keras_bert_impl.interop.layouts.bert import ACTIVATIONS
from keras_bert_impl.interop.layouts.names import optional


def encoder_config(config, source="config.json"):
    """The `EncoderConfig` in a Hugging Face configuration.

    Args:
        config: dict, the content of `config.json`.
        source: str. What to call it in an error.

    Returns:
        `EncoderConfig`.

    Raises:
        InputError: a kind of model that is not known, a missing key, or a setting that this
            encoder does not compute.
    """
    model_type = config.get("model_type", "bert")
    if model_type not in list(LAYOUTS):  # a list, for what has no hash
        raise InputError(
            f"{source}: model_type is {model_type!r}; supported are {', '.join(LAYOUTS)}."
        )
    layout = LAYOUTS[model_type]
    missing = [layout.keys[name] for name in layout.required if layout.keys[name] not in config]
    if missing:
        raise InputError(f"{source}: {', '.join(missing)} is missing.")
    for key, value in layout.fixed.items():
        if config.get(key, value) != value:
            raise InputError(f"{source}: {key} is {config[key]!r}; only {value!r} is supported.")
    stated = {
        name: config[key] for name, key in layout.keys.items() if config.get(key) is not None
    }
    try:
        fields = layout.to_fields(layout.silent | stated)
        fields["activation"] = _activation(fields.get("activation", "gelu"), layout)
        return EncoderConfig(architecture=model_type, **fields)
    except (InputError, TypeError) as error:
        raise InputError(f"{source}: {error}") from error


def _activation(name, layout):
    if name not in list(ACTIVATIONS):
        raise InputError(
            f"{layout.keys['activation']} is {name!r}; supported are {', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[name]


def read_encoder_config(directory):
    """The `EncoderConfig` of a model directory.

    Args:
        directory: `ModelDirectory`.

    Returns:
        `EncoderConfig`.

    Raises:
        InputError: as of `encoder_config`; or `config.json` names more layers than there are
            tensors: a damaged number is found before so many layers are made.
    """
    config = encoder_config(directory.config, directory.path / "config.json")
    directory.prefix = LAYOUTS[config.architecture].prefix
    if (config.num_layer_groups or config.num_layers) > len(directory):
        raise InputError(
            f"{directory.path}: by config.json there are {config.num_layers} layers, but in the "
            f"weights only {len(directory)} tensors."
        )
    return config


def huggingface_config(config, head=None, **more):
    """The content of a `config.json` for an `EncoderConfig`.

    Args:
        config: `EncoderConfig`.
        head: str or None, the head that the model has: which class `transformers` should make.
        **more: further keys, such as `id2label`.

    Returns:
        dict.

    Raises:
        InputError: the encoder has something that the files of its kind cannot say.
    """
    layout = LAYOUTS[config.architecture]
    fields = config.to_dict()
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    settings = layout.to_settings(fields)
    if settings["activation"] in theirs:
        settings["activation"] = theirs[settings["activation"]]
    written = {
        "architectures": [layout.classes[head]],
        "model_type": config.architecture,
        **{layout.keys[name]: value for name, value in settings.items()},
        **layout.fixed,
        **more,
    }
    read = encoder_config(written)
    lost = [name for name, value in read.to_dict().items() if value != fields[name]]
    lost = [name for name in lost if name != "use_pooler"]
    if lost:
        raise InputError(
            f"a {config.architecture} model directory cannot say "
            f"{', '.join(f'{name}={fields[name]!r}' for name in lost)}."
        )
    return written


def encoder_tensors(config):
    """Names of all tensors of an encoder.

    Args:
        config: `EncoderConfig`.

    Returns:
        list of `TensorName`.
    """
    return LAYOUTS[config.architecture].encoder_tensors(config)


def head_tensors(config, head):
    """Names of the tensors of a head; a checkpoint without it is a base model to tune.

    Args:
        config: `EncoderConfig`.
        head: str, such as `"masked_lm"` or `"classifier"`.

    Returns:
        list of `TensorName`, all optional.
    """
    heads = LAYOUTS[config.architecture].heads()
    if head not in heads:
        raise ValueError(
            f"head must be one of {', '.join(heads)} for {config.architecture}. Received: {head!r}"
        )
    return optional(heads[head])


def tied_tensors(config):
    """dict of tensors of the masked language model's head that are copies of others, which they
    are in old files, to the names of those others."""
    return LAYOUTS[config.architecture].tied_tensors()


def tensor_prefix(config):
    """str. What the encoder's tensors begin with in the files of a model with a head."""
    return LAYOUTS[config.architecture].prefix + "."


def has_head(directory, config, head):
    """bool. Whether a `ModelDirectory` says that its model, of `config`, has that head."""
    return directory.config.get("architectures") == [LAYOUTS[config.architecture].classes[head]]


def classifier_dropout_key(config):
    """str. The key of `config.json` for the dropout rate before a classifier."""
    return LAYOUTS[config.architecture].dropout_key
