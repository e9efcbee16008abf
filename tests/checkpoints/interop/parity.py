"""BERT models of `transformers` with random weights, and their comparison with ours."""

import copy

import numpy as np
import torch
import transformers

from keras_bert_impl.models.encoder import Encoder
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
    """Creates a model with noise in every weight: biases of 0 and scales of 1 would hide errors."""
    config = transformers.BertConfig(**{**CONFIG.to_dict(), **settings})
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def saved_pair(model_class, settings, directory):
    """Saves a model with noise in every weight; returns it and our encoder of its files."""
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape)
    model.save_pretrained(directory)
    return model, Encoder.from_pretrained(directory)


def batch(vocabulary_size, lengths, num_segments=2, seed=0):
    """Creates padded features; the second half of every row is in the second segment."""
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
    """Returns the original's outputs as numpy arrays under our names."""
    # A pre-norm FlauBERT fails in `transformers` if attention is requested.
    with_scores = not getattr(model.config, "pre_norm", False)
    if model.config.model_type == "big_bird":
        model = big_bird_for(model, features["token_ids"].shape[1])
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
        # Theirs is NaN at padding that attends to no token.
        pooled = np.where(real, states[-1], 0.0).sum(1) / real.sum(1)
    if model.config.model_type == "modernbert-decoder":  # as its sequence classifier pools
        last = features["padding_mask"].sum(1) - 1
        pooled = states[-1][np.arange(len(last)), last]
    scores = [layer.double().numpy() for layer in outputs.attentions or ()]
    if model.config.model_type == "big_bird":
        length = features["token_ids"].shape[1]
        scores = [big_bird_scores(model.config, layer, length) for layer in scores]
        states = [state[:, :length] for state in states]  # theirs fill the last block
    if model.config.model_type == "longformer":
        global_scores = [layer.double().numpy() for layer in outputs.global_attentions or ()]
        scores = longformer_scores(scores, global_scores, global_mask(features))
    return {"hidden_states": states, "attention_scores": scores, "pooled_output": pooled}


def big_bird_for(model, length):
    """Copies a BigBird of `transformers`, with the attention that it has for rows of this length.

    After a short row, `transformers` has full attention for all rows and returns no scores.
    """
    config = copy.deepcopy(model.config)
    if length <= (5 + 2 * config.num_random_blocks) * config.block_size:
        config.attention_type = "original_full"
    big_bird = type(model)(config).eval()
    big_bird.load_state_dict(model.state_dict())
    return big_bird


def big_bird_scores(config, scores, length):
    """Adds up the attention of a BigBird in `transformers` to blocks that it counts several times.

    Outside of training, each inner block attends to the first block `1 + num_random_blocks` times,
    but only one of these weights is returned.
    """
    if config.attention_type == "block_sparse":
        size = config.block_size
        scores = scores.copy()
        scores[:, :, size:-size, :size] *= 1 + config.num_random_blocks
    return scores[:, :, :length, :length]


def global_mask(features):
    """Returns the global tokens of a Longformer: ours by default, or those in the features."""
    first = np.arange(features["token_ids"].shape[1])[None] == 0
    return features.get("global_mask", first) * features["padding_mask"]


def longformer_scores(window_scores, global_scores, mask):
    """Converts the attention of a Longformer in `transformers` to `[batch, heads, query, key]`.

    There, each token has its weights on the row's global tokens, then on its window; those of
    global tokens are apart, `[batch, heads, key, global]`.
    """
    batch, length = mask.shape
    slots = mask.sum(1).max()
    scores = []
    for layer, windows in enumerate(window_scores):
        full = np.zeros((*windows.shape[:3], length))
        reach = (windows.shape[-1] - slots) // 2
        keys = np.arange(length)[:, None] + np.arange(-reach, reach + 1)
        query, column = np.nonzero((keys >= 0) & (keys < length))
        full[:, :, query, keys[query, column]] = windows[:, :, query, slots + column]
        for row in range(batch):
            for slot, key in enumerate(np.flatnonzero(mask[row])):
                full[row, :, :, key] += windows[row, :, :, slot]
            for slot, query in enumerate(np.flatnonzero(mask[row])):
                full[row, :, query] = global_scores[layer][row, :, :length, slot]
        scores.append(full)
    return scores


def original_features(model, features):
    """Converts features to arguments of a `transformers` model; segments only if it has them."""
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    if getattr(model.config, "type_vocab_size", 0):
        names["token_type_ids"] = "segment_ids"
    if model.config.model_type == "xlm":
        names["langs"] = "segment_ids"
    if model.config.model_type == "longformer":
        features = features | {"global_mask": global_mask(features)}
        names["global_attention_mask"] = "global_mask"
    return {theirs: torch.tensor(features[ours]).long() for theirs, ours in names.items()}


def packed(features):
    """Packs the real tokens of padded rows into one row."""
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
    """Returns the largest difference of each kind of output at the real tokens.

    Returns:
        dict of name to a list of floats, one for each layer.
    """
    real = features["padding_mask"] == 1
    return {
        "hidden_states": [
            difference(np.asarray(ours)[real], theirs[real])
            for ours, theirs in zip(received["hidden_states"], expected["hidden_states"])
        ],
        "attention_scores": [
            difference(
                np.asarray(ours).transpose(0, 2, 1, 3)[real], theirs.transpose(0, 2, 1, 3)[real]
            )
            for ours, theirs in zip(received["attention_scores"], expected["attention_scores"])
        ],
        "pooled_output": [difference(received["pooled_output"], expected["pooled_output"])],
    }


def packed_differences(received, expected, features):
    """Same as `padded_differences`, for the outputs of a model for `packed(features)`."""
    lengths = features["padding_mask"].sum(1)
    ends = np.cumsum(lengths)
    states, scores = [], []
    for ours, theirs in zip(received["hidden_states"], expected["hidden_states"]):
        states.append(difference(np.asarray(ours)[0], theirs[features["padding_mask"] == 1]))
    for ours, theirs in zip(received["attention_scores"], expected["attention_scores"]):
        ours = np.asarray(ours)[0]
        scores.append(
            max(
                difference(ours[:, end - n : end, end - n : end], theirs[row, :, :n, :n])
                for row, (n, end) in enumerate(zip(lengths, ends))
            )
        )
    return {"hidden_states": states, "attention_scores": scores}


def published_original(name, seed=0):
    """Creates a `transformers` model of a published shape, with noise in every weight."""
    from keras_bert_impl.checkpoints.config import EncoderConfig
    from keras_bert_impl.checkpoints.interop import huggingface_config

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
    """Compares our float32 encoder of a published shape with theirs in float64.

    Args:
        name: str, name of the published model.
        directory: `Path` where the weights are saved temporarily.
        lengths: list of int, the lengths of the rows.

    Returns:
        dict, see `padded_differences`.
    """
    model = published_original(name)
    model.save_pretrained(directory)
    encoder = Encoder.from_pretrained(directory)
    config = encoder.config
    features = batch(config.vocabulary_size, lengths, config.num_segments or 1)
    real = features["padding_mask"] == 1
    # Some models count positions by the tokens that differ from the padding id.
    tokens = np.where(features["token_ids"] == config.pad_token_id, 5, features["token_ids"])
    features["token_ids"] = np.where(real, tokens, config.pad_token_id).astype("int32")
    received = encoder.with_outputs("hidden_states", "attention_scores")(features)
    received = {
        key: [np.asarray(x) for x in value] if isinstance(value, tuple) else np.asarray(value)
        for key, value in received.items()
    }
    del encoder
    differences = padded_differences(received, original_outputs(model, features), features)
    return {key: values for key, values in differences.items() if values}
