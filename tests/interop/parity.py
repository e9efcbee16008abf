"""BERT models of `transformers` with random weights, and comparison with ours."""

import numpy as np
import torch
import transformers

from tests.helpers import difference

CONFIG = transformers.BertConfig(
    vocab_size=53,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=20,
    type_vocab_size=2,
    attn_implementation="eager",
)


def random_original(model_class=transformers.BertModel, seed=0, **settings):
    """A model with noise in every weight: fresh biases are 0 and scales 1, which hides errors."""
    config = transformers.BertConfig(**{**CONFIG.to_dict(), **settings})
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def batch(vocabulary_size, lengths, num_segments=2, seed=0):
    """Padded features, the second part of every row in the second segment."""
    random = np.random.default_rng(seed)
    shape = len(lengths), max(lengths)
    place = np.arange(shape[1])[None]
    lengths = np.array(lengths)[:, None]
    return {
        "token_ids": random.integers(0, vocabulary_size, shape).astype("int32"),
        "segment_ids": (place >= lengths // 2).astype("int32") % num_segments,
        "padding_mask": (place < lengths).astype("int32"),
    }


def original_outputs(model, features, dtype=torch.float64):
    """What the original computes, as numpy arrays under our names."""
    # A FlauBERT that normalizes before fails there if asked for attention.
    with_scores = not getattr(model.config, "pre_norm", False)
    with torch.no_grad():
        outputs = model.to(dtype)(
            **original_features(model, features),
            output_hidden_states=True,
            output_attentions=with_scores,
        )
    states = [state.double().numpy() for state in outputs.hidden_states]
    pooled = getattr(outputs, "pooler_output", None)
    pooled = states[-1][:, 0] if pooled is None else pooled.double().numpy()
    if getattr(model.config, "classifier_pooling", "cls") == "mean":
        real = features["padding_mask"][:, :, None]
        # At padding that sees nothing they have NaN.
        pooled = np.where(real, states[-1], 0.0).sum(1) / real.sum(1)
    if model.config.model_type == "modernbert-decoder":  # of its class for sequences
        last = features["padding_mask"].sum(1) - 1
        pooled = states[-1][np.arange(len(last)), last]
    return {
        "hidden_states": states,
        "attention_scores": [scores.double().numpy() for scores in outputs.attentions or ()],
        "pooled_output": pooled,
    }


def original_features(model, features):
    """Arguments of a model of `transformers`; segments only where it has them."""
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    if getattr(model.config, "type_vocab_size", 0):
        names["token_type_ids"] = "segment_ids"
    return {theirs: torch.tensor(features[ours]).long() for theirs, ours in names.items()}


def packed(features):
    """The padded rows, without their padding, in one row."""
    real = features["padding_mask"] == 1
    place = np.broadcast_to(np.arange(real.shape[1], dtype="int32")[None], real.shape)
    number = np.broadcast_to(1 + np.arange(real.shape[0], dtype="int32")[:, None], real.shape)
    return {
        "token_ids": features["token_ids"][real][None],
        "segment_ids": features["segment_ids"][real][None],
        "position_ids": place[real][None],
        "example_ids": number[real][None],
    }


def padded_differences(received, expected, features):
    """The largest difference of each kind of output at the real tokens.

    Returns:
        dict of name to a list of floats, one for each layer.
    """
    real = features["padding_mask"] == 1
    return {
        "hidden_states": [
            difference(np.asarray(one)[real], other[real])
            for one, other in zip(received["hidden_states"], expected["hidden_states"])
        ],
        "attention_scores": [
            difference(
                np.asarray(one).transpose(0, 2, 1, 3)[real], other.transpose(0, 2, 1, 3)[real]
            )
            for one, other in zip(received["attention_scores"], expected["attention_scores"])
        ],
        "pooled_output": [difference(received["pooled_output"], expected["pooled_output"])],
    }


def packed_differences(received, expected, features):
    """As `padded_differences`, for what a model returned for `packed(features)`."""
    lengths = features["padding_mask"].sum(1)
    ends = np.cumsum(lengths)
    states, scores = [], []
    for one, other in zip(received["hidden_states"], expected["hidden_states"]):
        states.append(difference(np.asarray(one)[0], other[features["padding_mask"] == 1]))
    for one, other in zip(received["attention_scores"], expected["attention_scores"]):
        one = np.asarray(one)[0]
        scores.append(
            max(
                difference(one[:, end - n : end, end - n : end], other[row, :, :n, :n])
                for row, (n, end) in enumerate(zip(lengths, ends))
            )
        )
    return {"hidden_states": states, "attention_scores": scores}


def published_original(name, seed=0):
    """A model of `transformers` of a published shape, with noise in every weight."""
    from keras_bert_impl.config import EncoderConfig
    from keras_bert_impl.interop import huggingface_config

    settings = huggingface_config(EncoderConfig.named(name))
    config = transformers.AutoConfig.for_model(**settings)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = getattr(transformers, settings["architectures"][0])(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape)
    return model


def published_differences(name, directory, lengths):
    """How far our encoder of a published shape, in float32, is from theirs in float64.

    Args:
        name: str, of a published model.
        directory: `Path` for the weights on their way.
        lengths: list of int, of the rows.

    Returns:
        dict, as of `padded_differences`.
    """
    from keras_bert_impl.models.encoder import Encoder

    model = published_original(name)
    model.save_pretrained(directory)
    encoder = Encoder.from_pretrained(directory)
    config = encoder.config
    features = batch(config.vocabulary_size, lengths, config.num_segments or 1)
    real = features["padding_mask"] == 1
    # Positions of some count the tokens that are not padding.
    tokens = np.where(features["token_ids"] == config.pad_token_id, 5, features["token_ids"])
    features["token_ids"] = np.where(real, tokens, config.pad_token_id).astype("int32")
    received = encoder.with_outputs("hidden_states", "attention_scores")(features)
    received = {
        key: [np.asarray(x) for x in value] if isinstance(value, tuple) else np.asarray(value)
        for key, value in received.items()
    }
    del encoder
    found = padded_differences(received, original_outputs(model, features), features)
    return {key: values for key, values in found.items() if values}
