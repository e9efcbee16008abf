"""The page about one text: rollout, losses, cuts, and what each model shows."""

import base64
import json
import re

import numpy as np
import pytest

from keras_bert_impl import InputError, TextEmbedder, look
from keras_bert_impl.reports.attention import rollout, text_attention
from keras_bert_impl.reports.look_page import token_losses
from keras_bert_impl.tasks import MaskedLM
from tests.reports import pages
from tests.tasks import helpers


@pytest.fixture(scope="module")
def classifier():
    return helpers.classifier(dropout=0.0)


@pytest.fixture(scope="module")
def masked_lm():
    return MaskedLM(helpers.encoder(num_layers=2), helpers.tokenizer())


def data_of(path):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    return json.loads(found[1])


def test_rollout_of_uniform_attention_has_a_closed_form():
    # Each layer keeps half of a token's own weight and spreads the other half over all n: after k
    # layers, 2 ** -k is left and the rest is uniform.
    length, layers = 5, 4
    found = rollout(np.full([layers, 3, length, length], 1 / length))
    for number in range(layers):
        left = 0.5 ** (number + 1)
        expected = left * np.eye(length) + (1 - left) / length
        np.testing.assert_allclose(found[number], expected, rtol=1e-6)


def test_rollout_follows_the_order_of_layers():
    # Layer 1: token 0 sees token 1. Layer 2: token 1 sees token 0.
    first, second = np.eye(2), np.eye(2)
    first[0], second[1] = [0, 1], [1, 0]
    found = rollout(np.stack([first, second])[:, None])
    np.testing.assert_allclose(found[1], [[0.5, 0.5], [0.25, 0.75]])


def test_attention_is_that_of_the_encoder(masked_lm):
    found = text_attention(masked_lm, "the film is good")
    assert found.tokens == "[CLS] the film is good [SEP]".split() and not found.is_cut
    features = masked_lm.tokenizer(["the film is good"])
    outputs = masked_lm.encoder.with_outputs("attention_scores")(features)
    for layer in range(2):
        np.testing.assert_array_equal(found.weights[layer], outputs["attention_scores"][layer][0])


def test_losses_are_those_of_the_pseudo_perplexity(masked_lm):
    text = "the film is good"
    losses = token_losses(masked_lm, masked_lm.tokenizer([text])["token_ids"].numpy()[0])
    assert np.isnan(losses[[0, -1]]).all()
    expected = -masked_lm.pseudo_perplexity([text]).log_likelihoods[0]
    assert np.nansum(losses) == pytest.approx(expected, rel=1e-5)


def test_a_page_of_a_classifier(classifier, tmp_path):
    path = look(classifier, "a good <script>x</script> film", tmp_path / "look.html")
    page = pages.read(path)
    assert [title for title in page.sections if title] == ["Attribution", "Attention"]
    assert page.tags.count("script") == 2  # data, and the page's own
    data = data_of(path)
    layers, heads, length = data["sizes"]
    weights = np.frombuffer(base64.b64decode(data["weights"]), "uint8")
    expected = text_attention(classifier, "a good <script>x</script> film").weights
    decoded = (weights / 255.0).reshape(layers, heads, length, length) ** 2
    # Half a step of the square root: at most (r + 1 / 510) ** 2 - r ** 2 for r up to 1.
    np.testing.assert_allclose(decoded, expected, atol=1 / 255 + 1 / 510**2)
    assert "as a table" in page.sections["Attribution"]


def test_pages_of_other_models(masked_lm, tmp_path):
    page = pages.read(look(masked_lm, "the film", tmp_path / "a.html"))
    assert [title for title in page.sections if title] == ["Attention", "Losses"]
    assert [row[0] for row in page.tables["Losses"][1:]] == ["the", "film"]
    embedder = TextEmbedder(masked_lm.encoder, masked_lm.tokenizer)
    page = pages.read(look(embedder, ("the film", "a joy"), tmp_path / "b.html"))
    assert [title for title in page.sections if title] == ["Attention"]


def test_long_texts_are_cut_and_say_so(classifier, tmp_path):
    path = look(classifier, "good film " * 5000, tmp_path / "look.html")
    assert data_of(path)["sizes"] == [1, 2, 32]
    text = pages.read(path).sections
    assert (
        "its first 32 tokens" in text["Attention"] and "its end is not seen" in text["Attribution"]
    )
    assert path.stat().st_size < 100_000


@pytest.mark.parametrize("text", ["", " \n", ("", " ")])
def test_empty_texts(classifier, tmp_path, text):
    with pytest.raises(InputError, match="the text is empty"):
        look(classifier, text, tmp_path / "look.html")
    assert not list(tmp_path.iterdir())


def test_a_text_without_words(classifier, tmp_path):
    page = pages.read(look(classifier, "\x00\x01", tmp_path / "look.html"))
    assert "has no words" in page.sections["Attribution"]
