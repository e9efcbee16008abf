"""The page about one text: rollout, losses, cuts, and what each model shows."""

import base64
import json
import re

import numpy as np
import pytest

from keras_bert_impl import (
    FeatureTagger,
    InputError,
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    look,
)
from keras_bert_impl.reports.look_page import rollout, text_attention, token_losses
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
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    return json.loads(match[1])


def test_rollout_of_uniform_attention_has_a_closed_form():
    # Each layer keeps half of a token's own weight and spreads the other half over all n: after k
    # layers, 2 ** -k is left and the rest is uniform.
    length, layers = 5, 4
    received = rollout(np.full([layers, 3, length, length], 1 / length))
    for number in range(layers):
        share = 0.5 ** (number + 1)
        expected = share * np.eye(length) + (1 - share) / length
        np.testing.assert_allclose(received[number], expected, rtol=1e-6)


def test_rollout_follows_the_order_of_layers():
    # Layer 1: token 0 sees token 1. Layer 2: token 1 sees token 0.
    first, second = np.eye(2), np.eye(2)
    first[0], second[1] = [0, 1], [1, 0]
    received = rollout(np.stack([first, second])[:, None])
    np.testing.assert_allclose(received[1], [[0.5, 0.5], [0.25, 0.75]])


def test_attention_is_that_of_the_encoder(masked_lm):
    attention = text_attention(masked_lm, "the film is good")
    assert attention.tokens == "[CLS] the film is good [SEP]".split() and not attention.is_cut
    features = masked_lm.tokenizer(["the film is good"])
    outputs = masked_lm.encoder.with_outputs("attention_scores")(features)
    for layer in range(2):
        np.testing.assert_array_equal(
            attention.weights[layer], outputs["attention_scores"][layer][0]
        )


def test_losses_are_those_of_the_pseudo_perplexity(masked_lm):
    text = "the film is good"
    attention = text_attention(masked_lm, text)
    losses = token_losses(masked_lm, attention.features, len(attention.tokens))
    assert np.isnan(losses[[0, -1]]).all()
    expected = -masked_lm.pseudo_perplexity([text]).log_likelihoods[0]
    assert np.nansum(losses) == pytest.approx(expected, rel=1e-5)


def test_losses_of_a_pair_see_its_segments(masked_lm):
    pair = "the film", "is good"
    attention = text_attention(masked_lm, pair)
    features = {name: value.numpy() for name, value in masked_lm.tokenizer([pair]).items()}
    assert features["segment_ids"].max() == 1
    for name, value in features.items():
        np.testing.assert_array_equal(attention.features[name], value)
    losses = token_losses(masked_lm, attention.features, len(attention.tokens))
    for place in (1, 2, 4, 5):
        row = {name: value.copy() for name, value in features.items()}
        row["token_ids"][0, place] = masked_lm.tokenizer.mask_id
        row["masked_positions"] = np.array([[place]], "int32")
        logits = np.asarray(masked_lm(row), "float64")[0, 0]
        expected = np.log(np.exp(logits).sum()) - logits[features["token_ids"][0, place]]
        assert losses[place] == pytest.approx(expected, rel=1e-4)


def test_an_embedder_reads_its_prompt_and_each_text_alone(masked_lm):
    prompts = {"prompts": {"q": "what "}, "default_prompt_name": "q"}
    embedder = TextEmbedder(masked_lm.encoder, masked_lm.tokenizer, do_lower_case=True, **prompts)
    attention = text_attention(embedder, ("A joy", "dull film"))
    assert attention.tokens == "[CLS] what a joy [SEP] [CLS] what dull film [SEP]".split()
    assert not attention.is_cut
    assert not attention.weights[:, :, :5, 5:].any() and not attention.weights[:, :, 5:, :5].any()
    for start, text in ((0, "what a joy"), (5, "what dull film")):
        part = slice(start, start + 5)
        expected = text_attention(masked_lm, text)
        np.testing.assert_allclose(attention.weights[:, :, part, part], expected.weights, atol=1e-6)
        np.testing.assert_allclose(attention.rollout[:, part, part], expected.rollout, atol=1e-6)


def test_a_longformer_has_the_global_tokens_of_its_task():
    settings = {"num_segments": 1, "window": 1, "max_global_tokens": 8, "position_offset": 1}
    encoder = helpers.encoder(architecture="longformer", **settings)
    model = QuestionAnswerer(encoder, helpers.tokenizer(), max_length=24, max_question_length=6)
    attention = text_attention(model, ("what film", "a good film is great"))
    # [CLS], the question and its [SEP]s are seen by all, the context only by its neighbours.
    columns = np.flatnonzero(attention.weights[0].min(axis=(0, 1)) > 0)
    assert columns.tolist() == [0, 1, 2]
    assert attention.features["global_mask"][0, :4].tolist() == [1, 1, 1, 0]
    assert text_attention(MaskedLM(encoder, helpers.tokenizer()), "a film").features[
        "global_mask"
    ].tolist() == [[0, 0, 0, 0]]


def test_a_long_text_is_read_whole_and_shown_in_part():
    classifier = TextClassifier(
        helpers.encoder(num_layers=2, max_length=128, dropout=0.0),
        helpers.tokenizer(),
        labels=["a", "b"],
    )
    text = "good film the plot " * 20
    attention = text_attention(classifier, text)
    assert attention.is_cut and attention.weights.shape == (2, 2, 64, 64)
    features = classifier.tokenizer([text])
    scores = classifier.encoder.with_outputs("attention_scores")(features)["attention_scores"]
    whole = np.stack([np.asarray(layer)[0] for layer in scores])
    np.testing.assert_allclose(attention.weights, whole[:, :, :64, :64], atol=1e-7)
    np.testing.assert_allclose(attention.rollout, rollout(whole)[:, :64, :64], atol=1e-7)
    windows = helpers.classifier(long_texts="mean", max_length=16)
    assert len(text_attention(windows, text).tokens) == 16


def test_choices_and_taggers_of_states_are_read_as_they_predict():
    encoder = helpers.encoder(num_layers=2)
    choice = MultipleChoice(encoder, helpers.tokenizer())
    attention = text_attention(choice, ("a film", ["good", "bad plot"]))
    rows = "[CLS] a film [SEP] good [SEP]", "[CLS] a film [SEP] bad plot [SEP]"
    assert attention.tokens == " ".join(rows).split()
    first = text_attention(choice, ("a film", "good"))
    np.testing.assert_allclose(first.weights, attention.weights[:, :, :6, :6], atol=1e-6)
    tagger = FeatureTagger(encoder, helpers.tokenizer(), labels=["O", "B"], lstm_dim=4)
    assert text_attention(tagger, "good film").tokens == "[CLS] good film [SEP]".split()


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
        "the first 32 tokens are shown" in text["Attention"]
        and "exceeds max_length" in text["Attribution"]
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
