"""Every encoder architecture: ours in float32 against `transformers` in float64, to 1e-5."""

import keras
import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.checkpoints.interop import (
    encoder_tensors,
    head_tensors,
    open_model,
    read_encoder_config,
)
from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS
from keras_bert_impl.models import heads
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.weights import load_weights
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.parity import (
    batch,
    original_features,
    original_outputs,
    padded_differences,
)

TOLERANCE = 1e-5  # see test_parity.py
VOCABULARY = 53
BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 22,
}
DISTIL = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}
XLM = {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 3, "n_heads": 4}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 22}
GPT2 |= {"n_inner": 48, "pad_token_id": 1}
# Padding must attend to a real token: otherwise theirs is NaN in float64, because its softmax runs
# in float32.
MODERN = BERT | {"num_hidden_layers": 5, "intermediate_size": 24, "local_attention": 15}
MODERN |= dict.fromkeys(("pad_token_id", "cls_token_id", "bos_token_id"), 1)
MODERN |= dict.fromkeys(("sep_token_id", "eos_token_id"), 2)
BIG_BIRD = BERT | {"block_size": 2, "num_random_blocks": 1, "sep_token_id": 2}
CASES = {
    "bert": ("bert", BERT),
    "roberta": ("roberta", BERT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "roberta relu": ("roberta", BERT | {"type_vocab_size": 1, "hidden_act": "relu"}),
    "xlm-roberta": ("xlm-roberta", BERT | {"type_vocab_size": 1}),
    "camembert": ("camembert", BERT | {"type_vocab_size": 1}),
    "albert": ("albert", BERT | {"embedding_size": 16}),
    "albert in groups": ("albert", BERT | {"embedding_size": 16, "num_hidden_groups": 2}),
    "distilbert": ("distilbert", DISTIL | {"max_position_embeddings": 22}),
    "electra small": ("electra", BERT | {"embedding_size": 16}),
    "electra": ("electra", BERT | {"embedding_size": 32}),
    "flaubert": ("flaubert", XLM | {"max_position_embeddings": 22, "pre_norm": True}),
    "flaubert base": ("flaubert", XLM | {"max_position_embeddings": 22}),
    "xlm": ("xlm", XLM | {"max_position_embeddings": 22, "n_langs": 3}),
    "xlm without language ids": ("xlm", XLM | {"n_langs": 3, "use_lang_emb": False}),
    "modernbert": ("modernbert", MODERN),
    "modernbert mean": (
        "modernbert",
        MODERN | {"global_attn_every_n_layers": 2, "classifier_pooling": "mean"},
    ),
    "modernbert global": ("modernbert", MODERN | {"global_attn_every_n_layers": 1}),
    "longformer": ("longformer", BERT | {"type_vocab_size": 1, "attention_window": 4}),
    "big_bird": ("big_bird", BIG_BIRD),
    "big_bird full": ("big_bird", BIG_BIRD | {"attention_type": "original_full"}),
    "gpt2": ("gpt2", GPT2),
    "modernbert decoder": ("modernbert-decoder", MODERN | {"local_attention": 17}),
}
HEADS = [(case, head) for case in CASES for head in LAYOUTS[CASES[case][0]].classes if head]
HEADS.remove(("modernbert decoder", "token_classifier"))  # Without an original in transformers.


def original(case, head=None, seed=0):
    """Creates a `transformers` model with noise in every weight."""
    model_type, settings = CASES[case]
    config = transformers.AutoConfig.for_model(model_type, **settings)
    config._attn_implementation = "eager"
    config.num_labels = 3 if head in ("classifier", "token_classifier") else 2
    model = getattr(transformers, LAYOUTS[model_type].classes[head])(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def features_of(model, lengths):
    """Creates features without padding ids among the real tokens."""
    config = model.config
    segments = getattr(config, "type_vocab_size", getattr(config, "n_langs", 1))
    features = batch(VOCABULARY, lengths, segments)
    real = features["padding_mask"] == 1
    token_ids = np.maximum(features["token_ids"], 5)
    features["token_ids"] = np.where(real, token_ids, config.pad_token_id).astype("int32")
    return features


@pytest.fixture(autouse=True)
def flaubert_can_run(monkeypatch):
    """Patches transformers 5, which indexes the cache by layer in a pre-norm FlauBERT and fails."""
    cache = transformers.cache_utils.EncoderDecoderCache
    monkeypatch.setattr(cache, "__getitem__", lambda self, layer: self, raising=False)


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    """Returns the case, a `transformers` model, and our encoder loaded from its files."""
    directory = tmp_path_factory.mktemp("theirs")
    model = original(request.param)
    model.save_pretrained(directory)
    return request.param, model, Encoder.from_pretrained(directory)


@pytest.mark.parametrize("lengths", [[1, 1], [9, 5, 3], [20, 20, 13]], ids=str)
def test_encoder(pair, lengths):
    case, model, encoder = pair
    features = features_of(model, lengths)
    expected = original_outputs(model, features)
    received = encoder.with_outputs("hidden_states", "attention_scores")(features)
    differences = padded_differences(received, expected, features)
    layers = encoder.config.num_layers
    assert len(differences["hidden_states"]) == layers + 1
    without_scores = case == "flaubert"  # see `original_outputs`
    assert len(differences["attention_scores"]) == (0 if without_scores else layers)
    differences = {name: values for name, values in differences.items() if values}
    assert (
        np.max([np.max(values) for values in differences.values()]) < TOLERANCE
    )  # also rejects NaN


@pytest.mark.parametrize("case", CASES)
def test_round_trip_is_exact(case, tmp_path):
    model = original(case)
    model.save_pretrained(tmp_path / "theirs")
    encoder = Encoder.from_pretrained(tmp_path / "theirs")
    assert encoder.config.num_parameters() == encoder.count_params()
    encoder.save_pretrained(tmp_path / "ours")
    again = transformers.AutoModel.from_pretrained(tmp_path / "ours")
    theirs, ours = model.state_dict(), again.state_dict()
    assert theirs.keys() == ours.keys()
    for name in theirs:
        assert torch.equal(theirs[name], ours[name]), name


@pytest.mark.parametrize(
    ("case", "head", "message"),
    [
        ("flaubert", "classifier", "summary_activation is 'tanh'; only None is supported"),
        ("electra", "multiple_choice", "summary_activation is 'tanh'; only 'gelu' is supported"),
    ],
)
def test_rejects_settings_of_the_head_that_is_loaded(case, head, message, tmp_path):
    model = original(case, head)
    model.config.summary_activation = "tanh"
    model.save_pretrained(tmp_path)
    source = open_model(tmp_path)
    read_encoder_config(source)  # the encoder does not have it
    with pytest.raises(InputError, match=message):
        read_encoder_config(source, head=head)


# Classes with two heads are tested below; the last one in tests/pretraining.
ELSEWHERE = ("pretraining", "sentence_order", "left_to_right")


def with_head(encoder, head):
    """Wraps an encoder with one head as a function of features."""
    features = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    outputs = encoder(features)
    if head == "masked_lm":
        logits = heads.masked_lm_head(encoder)(outputs["sequence_output"])
    elif head == "classifier":
        layer = heads.sequence_head(encoder, 3)
        logits = layer(heads.sequence_vector(encoder, outputs))
    elif head == "multiple_choice":
        logits = heads.choice_head(encoder)(outputs["pooled_output"])
    elif head == "replaced_token":
        logits = heads.replaced_token_head(encoder)(outputs["sequence_output"])
    elif head == "next_sentence":
        logits = heads.pooled_head(encoder, "next_sentence")(outputs["pooled_output"])
    elif head == "question_answerer":
        logits = heads.span_head(encoder)(outputs["sequence_output"])
    else:
        logits = heads.token_head(encoder, 3, name=head)(outputs["sequence_output"])
    return keras.Model(features, logits)


def original_logits(model, head, features):
    arguments = original_features(model, features)
    if head == "multiple_choice":
        arguments = {name: value[None] for name, value in arguments.items()}
    with torch.no_grad():
        outputs = model.double()(**arguments)
    if head == "question_answerer":
        return torch.stack([outputs.start_logits, outputs.end_logits], -1).numpy()
    if head == "multiple_choice":
        return outputs.logits[0][:, None].numpy()
    if head == "replaced_token":
        return outputs.logits[..., None].numpy()
    return outputs.logits.numpy()


@pytest.mark.parametrize(
    ("case", "head"), [pair for pair in HEADS if pair[1] not in ELSEWHERE], ids=str
)
def test_head(case, head, tmp_path):
    model = original(case, head)
    model.save_pretrained(tmp_path)
    features = features_of(model, [9, 5, 3])
    expected = original_logits(model, head, features)
    source = open_model(tmp_path)
    config = read_encoder_config(source)
    encoder = Encoder(config)
    ours = with_head(encoder, head)
    fresh = load_weights(ours, source, encoder_tensors(config) + head_tensors(config, head))
    assert not [path for path in fresh if "pooler" not in path]
    received = np.asarray(ours(features))
    assert received.shape == expected.shape
    if received.ndim == 3 and received.shape[1] == 9:
        real = features["padding_mask"] == 1
        received, expected = received[real], expected[real]
    assert np.abs(received - expected).max() < TOLERANCE


@pytest.mark.parametrize("case", ["bert", "albert"])
def test_pretraining_heads(case, tmp_path):
    model = original(case, "pretraining")
    model.save_pretrained(tmp_path)
    features = features_of(model, [9, 5, 3])
    with torch.no_grad():
        outputs = model.double()(**original_features(model, features))
    second = "next_sentence" if case == "bert" else "sentence_order"
    theirs = outputs.seq_relationship_logits if case == "bert" else outputs.sop_logits
    source = open_model(tmp_path)
    config = read_encoder_config(source)
    encoder = Encoder(config)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in features}
    states = encoder(inputs)
    ours = keras.Model(
        inputs,
        [
            heads.masked_lm_head(encoder)(states["sequence_output"]),
            heads.pooled_head(encoder, second)(states["pooled_output"]),
        ],
    )
    names = [name for head in ("masked_lm", second) for name in head_tensors(config, head)]
    assert not load_weights(ours, source, encoder_tensors(config) + names)
    words, pairs = ours(features)
    real = features["padding_mask"] == 1
    expected = outputs.prediction_logits.numpy()[real]
    assert np.abs(np.asarray(words)[real] - expected).max() < TOLERANCE
    assert np.abs(np.asarray(pairs) - theirs.numpy()).max() < TOLERANCE
