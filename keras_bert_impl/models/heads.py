"""The published task heads of each encoder architecture."""

import keras

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.layers import ClassificationHead, MaskedLMHead
from keras_bert_impl.settings import Rate, check

# Activation applied to the first token's last hidden state, in heads that do not use the pooler.
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
    """Creates the `MaskedLMHead` of an encoder.

    Args:
        encoder: `Encoder`. The head shares its token embeddings.
        name: str.
    """
    config = encoder.config
    # ELECTRA generators were trained with GELU, whatever the encoder's activation.
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
    """Creates the head that classifies a sequence from its `sequence_vector`.

    Args:
        encoder: `Encoder`.
        num_classes: int.
        dropout: float. None uses the encoder's rate.
        name: str.
        pools_tokens: bool. Whether the head's input is pooled over all tokens instead of the
            `sequence_vector`.

    Raises:
        InputError: the encoder lacks the pooler that this head was published with, or its
            architecture does not support pooling over tokens.
    """
    architecture = encoder.config.architecture
    if pools_tokens and architecture not in (*_SEQUENCE_TRANSFORMS, *_WITH_POOLER):
        raise InputError(
            f"pooling is not available for {architecture}, which pools in its own way."
        )
    if not pools_tokens and needs_pooler(encoder.config) and not encoder.config.use_pooler:
        raise InputError("to classify texts takes an encoder with a pooler (use_pooler=True).")
    transform = _SEQUENCE_TRANSFORMS.get(encoder.config.architecture)
    return _head(encoder, num_classes, dropout, transform, name)


def needs_pooler(config):
    """Returns whether `sequence_head` uses the pooler, given an `EncoderConfig`."""
    return config.architecture in _WITH_POOLER


def check_sees_all(config):
    """Raises if a causal encoder is not pooled on its last token.

    Args:
        config: `EncoderConfig`.

    Raises:
        InputError: the encoder is causal and is not pooled on its last token.
    """
    if config.causal and config.pooled_by != "last":
        raise InputError(
            "a text is classified by what its first token says, which in an encoder that reads "
            "from left to right sees no other."
        )


def sequence_vector(encoder, outputs):
    """Returns the input of `sequence_head`, `[batch, hidden]`, from an encoder's outputs.

    This is the pooled output, or the first token's last hidden state for encoders whose head has
    a transform.
    """
    if encoder.config.architecture in _SEQUENCE_TRANSFORMS:
        return outputs["sequence_output"][:, 0]
    return outputs["pooled_output"]


def token_head(encoder, num_classes, dropout=None, name="token_classifier"):
    """Creates the head that classifies each token from its last hidden state.

    Arguments are the same as `sequence_head`.
    """
    return _head(encoder, num_classes, dropout, None, name)


def choice_head(encoder, dropout=None, name="multiple_choice"):
    """Creates the head that scores one of several choices from the pooled output.

    Args:
        encoder, dropout, name: see `sequence_head`.

    Raises:
        InputError: the encoder lacks the pooler that this head was published with.
    """
    if choice_needs_pooler(encoder.config) and not encoder.config.use_pooler:
        raise InputError("to score choices takes an encoder with a pooler (use_pooler=True).")
    if encoder.config.architecture == "flaubert":  # two linear maps: to two numbers, then to one
        return _head(encoder, 1, dropout, "linear", name, transform_dim=2)
    transform = None
    if encoder.config.architecture in ("electra", "distilbert"):
        transform = _SEQUENCE_TRANSFORMS[encoder.config.architecture]
    return _head(encoder, 1, dropout, transform, name)


def choice_needs_pooler(config):
    """Returns whether `choice_head` uses the pooler, given an `EncoderConfig`."""
    return config.architecture in _CHOICE_WITH_POOLER


def pooled_head(encoder, name, dropout=0.0):
    """Creates the head for `"next_sentence"` or `"sentence_order"`.

    It maps the pooled output to two logits.
    """
    return _classification_head(encoder, 2, dropout, None, name)


def linear_map(encoder, dim, name):
    """Creates and builds a `Dense` layer without bias from an encoder's hidden size to `dim`."""
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
    """Creates ELECTRA's replaced token detection head: one logit per token."""
    return _classification_head(encoder, 1, 0.0, encoder.config.activation, name)


def _head(encoder, num_classes, dropout, transform, name, **more):
    config = encoder.config
    if config.architecture == "modernbert":  # every task head has the same transform
        transform, more = "gelu", {"layer_norm_epsilon": config.layer_norm_epsilon}
        more["use_bias"] = not config.causal  # its decoders have no bias here
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
