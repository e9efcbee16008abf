"""Task heads as in the published models, and the global tokens of each task."""

from typing import Any

import keras
from keras import ops

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.layers import ClassificationHead, MaskedLMHead, ResidualHead, SegmentMask
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import Rate, check

# Activation of heads that use the first token's hidden state instead of the pooler.
_SEQUENCE_TRANSFORMS = {
    "roberta": "tanh",
    "xlm-roberta": "tanh",
    "camembert": "tanh",
    "longformer": "tanh",
    "electra": "gelu",
    "distilbert": "relu",
}
_WITH_POOLER = ("bert", "albert")
# The masked LM heads of these architectures always use GELU.
_GELU_IN_MASKED_LM = ("electra", "modernbert", "roberta", "xlm-roberta", "camembert", "longformer")
_NO_TRANSFORM = ("flaubert", "xlm", "gpt2")  # Their masked LM heads are only an output matrix.
_CHOICE_WITH_POOLER = (*_WITH_POOLER, *"roberta xlm-roberta camembert longformer big_bird".split())


def masked_lm_head(
    encoder: Encoder, name: str = "masked_lm", factored: bool = False
) -> MaskedLMHead:
    """Creates the masked LM head, which uses the encoder's token embeddings."""
    config = encoder.config
    activation = "gelu" if config.architecture in _GELU_IN_MASKED_LM else config.activation
    return MaskedLMHead(
        encoder.embeddings,
        activation=None if config.architecture in _NO_TRANSFORM else activation,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_range=config.initializer_range,
        use_bias=config.use_bias,
        has_output_bias=config.architecture != "gpt2",
        factored=factored,
        dtype=encoder.dtype_policy,
        name=name,
    )


def sequence_head(
    encoder: Encoder,
    num_classes: int,
    dropout: float | None = None,
    name: str = "classifier",
    pools_tokens: bool = False,
) -> ClassificationHead:
    """Creates the head that classifies a sequence from its `sequence_vector`."""
    architecture = encoder.config.architecture
    transform = _find_sequence_transform(encoder.config)
    if pools_tokens and transform is None and architecture not in _WITH_POOLER:
        raise InputError(
            f"pooling is not available for {architecture}, whose head has a fixed pooling."
        )
    if not pools_tokens and needs_pooler(encoder.config) and not encoder.config.use_pooler:
        raise InputError("text classification needs an encoder with a pooler: use_pooler=True.")
    return _create_head(encoder, num_classes, dropout, transform, name)


def _find_sequence_transform(config):
    if config.architecture == "big_bird":
        return config.activation
    return _SEQUENCE_TRANSFORMS.get(config.architecture)


def needs_pooler(config: EncoderConfig) -> bool:
    return config.architecture in _WITH_POOLER


def check_sees_all(config: EncoderConfig) -> None:
    """Raises `InputError` if the encoder is causal and the head does not use the last token."""
    if config.causal and config.pooled_by != "last":
        raise InputError(
            "the head classifies the first token, which attends to no other token in a causal "
            "encoder. Use an encoder with causal=False, or a causal ModernBERT, whose head classifies "
            "the last token."
        )


def check_sees_both_sides(config: EncoderConfig, what: str) -> None:
    """Raises `InputError` if the encoder is causal. `what` names the task in the error."""
    if config.causal:
        raise InputError(
            f"{what} needs an encoder that attends to tokens on both sides. This encoder is "
            "causal (left to right). Use CausalLM.from_pretrained or `keras-bert generate`, or a "
            "model with causal=False."
        )


def sequence_vector(encoder: Encoder, outputs: dict[str, Any]) -> Any:
    """Returns the vector that `sequence_head` classifies, `[batch, hidden]`."""
    if _find_sequence_transform(encoder.config) is not None:
        return outputs["sequence_output"][:, 0]
    return outputs["pooled_output"]


def token_head(
    encoder: Encoder,
    num_classes: int,
    dropout: float | None = None,
    name: str = "token_classifier",
) -> ClassificationHead:
    """Creates the head that classifies each token from its last hidden state."""
    return _create_head(encoder, num_classes, dropout, None, name)


def span_head(
    encoder: Encoder, dropout: float | None = None, name: str = "question_answerer"
) -> ClassificationHead:
    """Creates the head with two logits per token: start and end of an answer."""
    if encoder.config.architecture != "big_bird":
        return token_head(encoder, 2, dropout, name)
    config = encoder.config
    options = {"intermediate_dim": config.intermediate_dim, "activation": config.activation}
    options["residual_epsilon"] = config.layer_norm_epsilon
    return _create_head(encoder, 2, dropout, None, name, head_class=ResidualHead, **options)


def choice_head(
    encoder: Encoder, dropout: float | None = None, name: str = "multiple_choice"
) -> ClassificationHead:
    """Creates the head that scores a choice from the pooled output."""
    architecture = encoder.config.architecture
    if choice_needs_pooler(encoder.config) and not encoder.config.use_pooler:
        raise InputError("multiple choice needs an encoder with a pooler: use_pooler=True.")
    if architecture in ("flaubert", "xlm"):  # two linear layers, with 2 units and 1 unit
        return _create_head(encoder, 1, dropout, "linear", name, transform_dim=2)
    has_transform = architecture in ("electra", "distilbert")
    transform = _SEQUENCE_TRANSFORMS[architecture] if has_transform else None
    return _create_head(encoder, 1, dropout, transform, name)


def choice_needs_pooler(config: EncoderConfig) -> bool:
    return config.architecture in _CHOICE_WITH_POOLER


def pooled_head(encoder: Encoder, name: str, dropout: float = 0.0) -> ClassificationHead:
    """Creates the head for `"next_sentence"` or `"sentence_order"`."""
    return _create_classification_head(encoder, 2, dropout, None, name)


def linear_map(encoder: Encoder, dim: int, name: str) -> keras.layers.Dense:
    """Creates and builds a `Dense` layer without bias, from the hidden dimension to `dim`."""
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


def replaced_token_head(encoder: Encoder, name: str = "replaced_token") -> ClassificationHead:
    """Creates ELECTRA's replaced token detection head: one logit per token."""
    return _create_classification_head(encoder, 1, 0.0, encoder.config.activation, name)


def _create_head(encoder, num_classes, dropout, transform, name, **options):
    config = encoder.config
    if config.architecture == "modernbert":  # Every ModernBERT head has the same transform.
        transform, options = "gelu", {"layer_norm_epsilon": config.layer_norm_epsilon}
        options["use_bias"] = not config.causal  # Causal models have no bias.
    dropout = config.dropout if dropout is None else dropout
    return _create_classification_head(encoder, num_classes, dropout, transform, name, **options)


def _create_classification_head(
    encoder, num_classes, dropout, transform, name, head_class=ClassificationHead, **options
):
    return head_class(
        num_classes,
        dropout=check("head_dropout", dropout, Rate),
        transform=transform,
        initializer_range=encoder.config.initializer_range,
        dtype=encoder.dtype_policy,
        name=name,
        **options,
    )


def with_global_mask(
    encoder: Encoder, features: dict[str, Any], segment: str | None, tokenizer: Any = None
) -> dict[str, Any]:
    """Adds the `global_mask` of `transformers` for a task, if the encoder has global tokens."""
    limit = encoder.config.max_global_tokens
    if limit is None:
        return features
    token_ids = features["token_ids"]
    if segment is None:
        return features | {"global_mask": ops.zeros_like(token_ids)}
    mask = SegmentMask(segment, tokenizer.sep_id, tokenizer.num_separators, limit)
    return features | {"global_mask": mask(token_ids, features["padding_mask"])}
