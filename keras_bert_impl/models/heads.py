"""Which head a kind of encoder has for a task, as it was published."""

import keras

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers import ClassificationHead, MaskedLMHead
from keras_bert_impl.settings import Rate, check

# What turns the first token's last state, where there is no pooler, into what is classified.
_SEQUENCE_TRANSFORMS = {
    "roberta": "tanh",
    "xlm-roberta": "tanh",
    "camembert": "tanh",
    "electra": "gelu",
    "distilbert": "relu",
}
_WITH_POOLER = ("bert", "albert")
_CHOICE_WITH_POOLER = (*_WITH_POOLER, "roberta", "xlm-roberta", "camembert")


def masked_lm_head(encoder, name="masked_lm"):
    """The `MaskedLMHead` of an encoder.

    Args:
        encoder: `Encoder`; the head shares its token embeddings.
        name: str.
    """
    config = encoder.config
    # Generators of ELECTRA were trained with gelu whatever the encoder has.
    always_gelu = config.architecture in ("electra", "modernbert")
    activation = "gelu" if always_gelu else config.activation
    return MaskedLMHead(
        encoder.embeddings,
        activation=None if config.architecture == "flaubert" else activation,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        use_bias=config.use_bias,
        dtype=encoder.dtype_policy,
        name=name,
    )


def sequence_head(encoder, num_classes, dropout=None, name="classifier", pools_tokens=False):
    """The head that classifies a sequence by its `sequence_vector`.

    Args:
        encoder: `Encoder`.
        num_classes: int.
        dropout: float; None for the encoder's.
        name: str.
        pools_tokens: bool. Whether it is given a pooling of all tokens in place of that vector.

    Raises:
        InputError: the encoder lacks the pooler that this head was published with, or has a
            pooling of its own.
    """
    architecture = encoder.config.architecture
    if pools_tokens and architecture not in (*_SEQUENCE_TRANSFORMS, *_WITH_POOLER):
        raise InputError(f"pooling is not available for {architecture}, which pools in its own way.")
    if not pools_tokens and needs_pooler(encoder.config) and not encoder.config.use_pooler:
        raise InputError("to classify texts takes an encoder with a pooler (use_pooler=True).")
    transform = _SEQUENCE_TRANSFORMS.get(encoder.config.architecture)
    return _head(encoder, num_classes, dropout, transform, name)


def needs_pooler(config):
    """bool. Whether `sequence_head` is on the pooler, for an `EncoderConfig`."""
    return config.architecture in _WITH_POOLER


def check_sees_all(config):
    """Refuses to ask a token that sees no other about a sequence, for an `EncoderConfig`.

    Raises:
        InputError: the encoder reads from left to right, and is pooled by another token than the
            last.
    """
    if config.causal and config.pooled_by != "last":
        raise InputError(
            "a text is classified by what its first token says, which in an encoder that reads from "
            "left to right sees no other."
        )


def sequence_vector(encoder, outputs):
    """What `sequence_head` takes, `[batch, hidden]`, of an encoder's outputs.

    The pooled output; or the first token's last state for encoders whose head has a transform.
    """
    if encoder.config.architecture in _SEQUENCE_TRANSFORMS:
        return outputs["sequence_output"][:, 0]
    return outputs["pooled_output"]


def token_head(encoder, num_classes, dropout=None, name="token_classifier"):
    """The head that classifies each token by its last hidden state; arguments as above."""
    return _head(encoder, num_classes, dropout, None, name)


def choice_head(encoder, dropout=None, name="multiple_choice"):
    """The head that scores one of several choices by the pooled output.

    Args:
        encoder, dropout, name: as of `sequence_head`.

    Raises:
        InputError: the encoder lacks the pooler that this head was published with.
    """
    if choice_needs_pooler(encoder.config) and not encoder.config.use_pooler:
        raise InputError("to score choices takes an encoder with a pooler (use_pooler=True).")
    if encoder.config.architecture == "flaubert":  # a map to two numbers, and from these to one
        return _head(encoder, 1, dropout, "linear", name, transform_dim=2)
    transform = None
    if encoder.config.architecture in ("electra", "distilbert"):
        transform = _SEQUENCE_TRANSFORMS[encoder.config.architecture]
    return _head(encoder, 1, dropout, transform, name)


def choice_needs_pooler(config):
    """bool. Whether `choice_head` is on the pooler, for an `EncoderConfig`."""
    return config.architecture in _CHOICE_WITH_POOLER


def pooled_head(encoder, name, dropout=0.0):
    """The two logits of `"next_sentence"` or `"sentence_order"`, of the pooled output."""
    return _classification_head(encoder, 2, dropout, None, name)


def linear_map(encoder, dim, name):
    """A `Dense` layer without bias from an encoder's hidden states to another width, built."""
    config = encoder.config
    layer = keras.layers.Dense(
        dim,
        use_bias=False,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
        dtype=encoder.dtype_policy,
        name=name,
    )
    layer.build((None, None, config.hidden_dim))
    return layer


def replaced_token_head(encoder, name="replaced_token"):
    """ELECTRA's: for each token one logit of having been replaced."""
    return _classification_head(encoder, 1, 0.0, encoder.config.activation, name)


def _head(encoder, num_classes, dropout, transform, name, **more):
    config = encoder.config
    if config.architecture == "modernbert":  # the same before every output of a task
        transform, more = "gelu", {"layer_norm_epsilon": config.layer_norm_epsilon}
        more["use_bias"] = not config.causal  # its decoders have none
    dropout = config.dropout if dropout is None else dropout
    return _classification_head(encoder, num_classes, dropout, transform, name, **more)


def _classification_head(encoder, num_classes, dropout, transform, name, **more):
    return ClassificationHead(
        num_classes,
        dropout=check("head_dropout", dropout, Rate),
        transform=transform,
        initializer_range=encoder.config.initializer_range,
        dtype=encoder.dtype_policy,
        name=name,
        **more,
    )
