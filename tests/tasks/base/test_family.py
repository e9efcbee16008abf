"""Task models with every kind of encoder and its tokenizer: files, both ways, and exports."""

import dataclasses

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining import Pretrainer
from keras_bert_impl.serving.graph_operations import read_graph
from keras_bert_impl.tasks import MaskedLM, QuestionAnswerer, TextClassifier
from keras_bert_impl.tokenizers import ByteLevelBPETokenizer, MosesBPETokenizer, Tokenizer
from keras_bert_impl.tokenizers.byte_level_bpe.files import BERT
from keras_bert_impl.tokenizers.byte_level_bpe.tokenizer import byte_characters
from keras_bert_impl.tokenizers.moses.characters import SPECIAL_TOKENS
from keras_bert_impl.utils.errors import InputError
from tests.helpers import randomize
from tests.tasks import helpers
from tests.tokenizers.sentencepiece_models import train

ROBERTA = {"pad_token_id": 1, "position_offset": 2, "num_segments": 1}
NO_SEGMENTS = {"num_segments": 0, "use_pooler": False}
MODERN = NO_SEGMENTS | {
    "num_layers": 4,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "layer_norm_epsilon": 1e-5,
    "pre_norm": True,
    "final_norm": True,
    "pooling": "mean",
    "use_bias": False,
    "gated": True,
    "rotary_base": 160_000.0,
    "global_every": 3,
    # So wide that every padding position sees a token; otherwise theirs gives NaN in float64.
    "window": 12,
    "local_rotary_base": 10_000.0,
}
KINDS = {
    "bert": {},
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "longformer": ROBERTA | {"window": 3, "max_global_tokens": 16},
    "big_bird": {"block_size": 8, "num_random_blocks": 1, "activation": "gelu_tanh"},
    "albert": {"embedding_dim": 8, "num_layer_groups": 1, "num_layers": 2},
    "distilbert": NO_SEGMENTS,
    "electra": {"embedding_dim": 8, "use_pooler": False},
    "modernbert": MODERN,
    "flaubert": NO_SEGMENTS | {"pad_token_id": 2, "intermediate_dim": 64},
    "xlm": NO_SEGMENTS | {"intermediate_dim": 64},
}
TEXTS = ["a good film", "what a dull plot, and very awful", "", "Zürich 日本 isn't bad  "]
PAIRS = [(text, second_text) for text, second_text in zip(TEXTS, TEXTS[::-1])]
# Ours computes in float32, theirs in float64; logits have magnitude 1.
TOLERANCE = 1e-5


def byte_level_bpe(first_tokens, **settings):
    words = ["Ġ" + word for word in helpers.WORDS]
    merges = [(word[:i], word[i]) for word in words for i in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    pieces = dict.fromkeys(a + b for a, b in merges)
    return ByteLevelBPETokenizer([*first_tokens, *byte_characters(), *pieces], merges, **settings)


def moses_bpe():
    words = [[*word[:-1], f"{word[-1]}</w>"] for word in helpers.WORDS]
    merges = [("".join(word[:i]), word[i]) for word in words for i in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    pieces = dict.fromkeys(
        piece for first, second in merges for piece in (first, second, first + second)
    )
    return MosesBPETokenizer([*SPECIAL_TOKENS, *pieces], merges)


SENTENCEPIECE = {
    "albert": "ALBERT",
    "xlm-roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "big_bird": "BigBird",
}


def sentencepiece(architecture, directory):
    train(directory, SENTENCEPIECE[architecture])
    return Tokenizer.from_pretrained(directory)


def tokenizer_of(architecture, directory):
    if architecture in SENTENCEPIECE:
        return sentencepiece(architecture, directory)
    if architecture in ("roberta", "longformer"):
        return byte_level_bpe(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    if architecture == "modernbert":
        added = ["   ", "  ", "|||PHONE|||"]
        return byte_level_bpe(
            [*BERT, *added], special_tokens=BERT, added_tokens=added, normalize=True
        )
    if architecture == "flaubert":
        return moses_bpe()
    return helpers.tokenizer()


def config_of(architecture, tokenizer, **changes):
    """A tiny `EncoderConfig` of one of `KINDS`."""
    config = {
        "vocabulary_size": tokenizer.vocabulary_size,
        "hidden_dim": 16,
        "num_layers": 2,
        "num_heads": 2,
        "intermediate_dim": 32,
        "max_length": 64,
        "architecture": architecture,
    }
    return EncoderConfig(**config | KINDS[architecture] | changes)


@pytest.fixture(params=KINDS)
def architecture(request):
    return request.param


@pytest.fixture
def tokenizer(architecture, tmp_path_factory):
    return tokenizer_of(architecture, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def encoder(architecture, tokenizer):
    return Encoder(config_of(architecture, tokenizer))


def their_scores(directory, texts):
    """Returns the scores of `transformers` for raw texts, in float64."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    texts = list(zip(*texts)) if isinstance(texts[0], tuple) else [texts]
    features = tokenizer(*map(list, texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        return torch.softmax(model.double().eval()(**features).logits, -1).numpy()


@pytest.mark.slow  # traces many graphs each
def test_classifier(encoder, tokenizer, tmp_path):
    model = TextClassifier(encoder, tokenizer, labels=["negative", "positive"], max_length=64)
    texts, labels = helpers.examples(count=16)
    before = helpers.weights(model)
    model.fit(texts, labels, batch_size=8, verbose=0)
    assert (before != helpers.weights(model)).any()
    randomize(model)
    model.save_pretrained(tmp_path / "model")
    model.export(tmp_path / "exported")
    assert read_graph(tmp_path / "exported").meta_graphs  # `serve` knows its operations
    again = TextClassifier.from_pretrained(tmp_path / "model")
    signatures = tf.saved_model.load(str(tmp_path / "exported")).signatures
    for inputs in (TEXTS, PAIRS):
        expected = model.predict(inputs, verbose=0)
        assert np.abs(expected - their_scores(tmp_path / "model", inputs)).max() < TOLERANCE
        assert (again.predict(inputs, verbose=0) == expected).all()
    served = signatures["serving_default"](text=tf.constant(TEXTS))["scores"]
    assert np.abs(served - model.predict(TEXTS, verbose=0)).max() < TOLERANCE
    first, second = map(tf.constant, zip(*PAIRS))
    served = signatures["pairs"](first=first, second=second)["scores"]
    assert np.abs(served - model.predict(PAIRS, verbose=0)).max() < TOLERANCE


def test_fills_masked_words(encoder, tokenizer, architecture, tmp_path):
    pretrainer = Pretrainer(encoder, ["masked_lm"])
    randomize(pretrainer)
    pretrainer.save_pretrained(tmp_path, tokenizer)
    model = MaskedLM.from_pretrained(tmp_path)
    mask = tokenizer.id_to_token(tokenizer.mask_id)
    text = f"what a {mask} film, it is {mask}"
    ours = model.fill([text], top_k=3)[0]
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).double().eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert their_tokenizer.model_max_length == encoder.config.max_length
    features = their_tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        scores = torch.softmax(theirs(**features).logits[0], -1).numpy()
    places = np.flatnonzero(features["input_ids"][0] == tokenizer.mask_id)
    assert len(places) == len(ours) == 2
    for place, fillings in zip(places, ours):
        best = np.argsort(-scores[place])[:3]
        assert [filling.token for filling in fillings] == [tokenizer.vocabulary[i] for i in best]
        received = [filling.score for filling in fillings]
        assert np.abs(received - scores[place][best]).max() < TOLERANCE


def test_big_bird_answers_like_transformers(tmp_path):
    """Block-sparse rows; `transformers` masks the logits of the question."""
    tokenizer = tokenizer_of("big_bird", tmp_path)
    encoder = Encoder(config_of("big_bird", tokenizer, block_size=2, dropout=0.0))
    model = QuestionAnswerer(encoder, tokenizer, max_question_length=8, max_length=64)
    randomize(model)
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).double().eval()
    features = tokenizer((["what is dull"], ["the plot is dull and a good film"]))
    assert features["token_ids"].shape[1] > 14  # else attention is full
    names = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    names["token_type_ids"] = "segment_ids"
    tensors = {name: torch.tensor(features[ours].numpy()).long() for name, ours in names.items()}
    with torch.no_grad():
        expected = theirs(**tensors)
    context = features["segment_ids"].numpy() == 1
    for name, values in QuestionAnswerer.from_pretrained(tmp_path)(features).items():
        difference = keras.ops.convert_to_numpy(values) - getattr(expected, name).numpy()
        assert np.abs(difference[context]).max() < TOLERANCE


@pytest.mark.slow
def test_pairs_for_an_encoder_with_one_segment(tmp_path):
    config = dataclasses.replace(helpers.encoder().config, num_segments=1)
    model = TextClassifier(Encoder(config), helpers.tokenizer(), num_classes=2)
    model.export(tmp_path)
    signature = tf.saved_model.load(str(tmp_path)).signatures["pairs"]
    pairs = [("a good film", "the plot"), ("dull", "a joy")]
    first, second = (tf.constant(texts) for texts in zip(*pairs))
    expected = model.predict(pairs, verbose=0)
    np.testing.assert_allclose(signature(first=first, second=second)["scores"], expected, atol=1e-6)


def _load_pretrainer(directory):
    return Pretrainer.from_pretrained(directory, ["masked_lm"])


@pytest.mark.parametrize("loader", [MaskedLM.from_pretrained, _load_pretrainer])
def test_reads_old_files_with_a_copy_of_the_embeddings(tmp_path, loader, caplog):
    """Old files had the output matrix twice; one that differs would predict different words."""
    pretrainer = Pretrainer(helpers.encoder(), ["masked_lm"])
    pretrainer.save_pretrained(tmp_path, helpers.tokenizer())
    path = tmp_path / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    words = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = words.copy()
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].copy()
    safetensors.numpy.save_file(tensors, path)
    loader(tmp_path)
    assert not [message for message in caplog.messages if "decoder" in message]
    tensors["cls.predictions.decoder.weight"][3, 2] += 1e-6
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(InputError, match="decoder.weight differs from embeddings.word_embeddings"):
        loader(tmp_path)
