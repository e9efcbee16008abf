"""Attribution of outputs to words: closed forms, completeness, targets, and bad input."""

import numpy as np
import pytest

from keras_bert_impl import InputError, QuestionAnswerer, TokenClassifier, attribute
from keras_bert_impl.reports.attribution.methods import METHODS
from tests.helpers import randomize
from tests.serving import network_models
from tests.tasks import helpers

TEXT = "the film is good, not dull"


@pytest.fixture(scope="module")
def classifier():
    return helpers.classifier(labels=("bad", "fair", "good"))


@pytest.fixture(scope="module")
def tagger():
    labels = ["O", "B-POS", "I-POS"]
    return TokenClassifier(helpers.encoder(), helpers.tokenizer(), labels=labels)


def scores(result):
    return np.array([word.score for word in result.words])


def log_odds(probability):
    return np.log(probability) - np.log1p(-probability)


@pytest.fixture(scope="module")
def linear():
    """A classifier that is linear in its embeddings: blocks add 0, and tokens are averaged."""
    encoder = helpers.encoder(pre_norm=True)
    of_embeddings = {id(weight) for weight in encoder.embeddings.weights}
    for weight in encoder.weights:
        if id(weight) not in of_embeddings:
            weight.assign(np.zeros(weight.shape))
    model = helpers.TextClassifier(encoder, helpers.tokenizer(), labels=["a", "b"], pooling="mean")
    model.head_layer.weights[0].assign(np.random.default_rng(1).normal(size=(16, 2)))
    return model


@pytest.mark.parametrize("method", METHODS)
def test_a_linear_model_has_a_closed_form(linear, method):
    result = attribute(linear, "good film", target="b", method=method, steps=3)
    tokenizer = linear.tokenizer
    row = tokenizer(["good film"])["token_ids"].numpy()
    masked = np.where(np.isin(row, [tokenizer.cls_id, tokenizer.sep_id]), row, tokenizer.mask_id)
    embed = linear.encoder.embeddings
    difference = np.asarray(embed(row) - embed(masked))[0]  # [4, 16]
    kernel = np.asarray(linear.head_layer.weights[0])
    expected = difference @ (kernel[:, 1] - kernel[:, 0]) / 4
    np.testing.assert_allclose(scores(result), expected[1:3], rtol=1e-4, atol=1e-6)


def test_integrated_gradients_add_up_to_the_difference(classifier):
    result = attribute(classifier, TEXT, steps=64)
    # Each float32 sum of 64 points may be off by a rounding error of each term.
    size = np.abs(scores(result)).sum() + abs(result.output) + abs(result.baseline)
    assert abs(result.gap) <= 64 * np.finfo("float32").eps * size
    assert abs(attribute(classifier, TEXT, steps=1).gap) > 10 * abs(result.gap)


def test_the_output_is_the_log_odds_that_predict_gives(classifier):
    result = attribute(classifier, TEXT, target="fair", steps=1)
    assert result.output == pytest.approx(log_odds(classifier.predict([TEXT])[0, 1]), rel=1e-4)
    assert [word.text for word in result.words] == "the film is good , not dull".split()
    assert result.words[4][1:3] == (16, 17)
    masked = "[MASK] " * 7
    assert result.baseline == pytest.approx(log_odds(classifier.predict([masked])[0, 1]), rel=1e-4)


def test_occlusion_is_the_difference_without_the_word(classifier):
    result = attribute(classifier, "great film", "good", method="occlusion")
    texts = ["great film", "[MASK] film", "great [MASK]"]
    odds = log_odds(classifier.predict(texts)[:, 2].astype("float64"))
    np.testing.assert_allclose(scores(result), odds[0] - odds[1:], rtol=1e-3, atol=1e-5)


def test_the_default_target_is_the_predicted_class(classifier):
    assert attribute(classifier, TEXT, steps=1).target == classifier.classify(TEXT)
    assert attribute(classifier, TEXT, target=2, steps=1).target == "good"


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "regression"])
def test_other_heads_attribute_the_logit_itself(problem_type):
    model = helpers.classifier(problem_type=problem_type)
    result = attribute(model, TEXT, target=1, steps=8)
    assert result.output == pytest.approx(float(model([TEXT])[0, 1]), rel=1e-4)
    assert abs(result.gap) < 1e-5


def test_the_model_is_not_changed(classifier):
    classifier.compile(learning_rate=1e-4)
    before = helpers.weights(classifier), np.array(classifier([TEXT])), classifier.optimizer
    first, second = (scores(attribute(classifier, TEXT, steps=2)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(helpers.weights(classifier), before[0])
    np.testing.assert_array_equal(np.array(classifier([TEXT])), before[1])
    assert classifier.optimizer is before[2]


def test_pairs_windows_and_cut_texts(classifier):
    pair = attribute(classifier, ("good film", "dull plot"), steps=8)
    assert [(word.text, word.segment) for word in pair.words][1:3] == [("film", 0), ("dull", 1)]
    assert abs(pair.gap) < 1e-5 and not pair.is_cut
    long = attribute(classifier, "good film " * 40, steps=1)
    assert long.is_cut and len(long.words) == 30
    windows = helpers.classifier(long_texts="mean", max_length=16)
    result = attribute(windows, "good film " * 40, steps=8)
    assert len(result.words) == 14 and abs(result.gap) < 1e-5


def test_special_tokens_in_the_text_are_words_of_it(classifier):
    text = "[CLS] good [SEP] film"
    result = attribute(classifier, text, method="occlusion")
    # The token [CLS] ends in the word "]".
    assert [word.text for word in result.words] == ["]", "good", "]", "film"]
    assert [word.start for word in result.words] == [4, 6, 15, 17]


def test_a_tagger_attributes_the_label_of_a_word(tagger):
    result = attribute(tagger, ["good", "film"], target=(1, "B-POS"), steps=8)
    assert result.target == "film/B-POS"
    outside, begin, inside = np.exp(tagger(["good film"])[0, 2])
    assert result.output == pytest.approx(np.log(begin / (outside + inside)), rel=1e-4)
    assert abs(result.gap) < 1e-5
    assert attribute(tagger, "good film", steps=1).target.split("/")[1] != "O"


def test_an_answer_attributes_its_start_and_end():
    sizes = {"max_length": 32, "max_question_length": 8}
    model = QuestionAnswerer(helpers.encoder(), helpers.tokenizer(), **sizes)
    pair = ("what is great", "the film is great, not the plot")
    result = attribute(model, pair, steps=8)
    starts, ends = np.array(model.logits([pair]))[0]
    tokens = "[CLS] what is great [SEP] the film is great , not the plot [SEP]".split()
    sums = {
        (a, b): starts[a] + ends[b] for a in range(5, 13) for b in range(a, 13)
    }  # fmt: skip
    first, last = max(sums, key=sums.get)
    assert result.output == pytest.approx(sums[first, last], rel=1e-4)
    assert result.target == " ".join(tokens[first : last + 1])
    assert abs(result.gap) < 1e-5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": ""}, "has no words"),
        ({"text": " \x00\x01 "}, "has no words"),
        ({"target": "great"}, "target must be one of 'bad', 'fair', 'good'"),
        ({"target": 3}, "target must be one of"),
        ({"target": True}, "target must be one of"),
        ({"method": "lime"}, "method must be one of integrated_gradients, occlusion"),
        ({"steps": 0}, "steps"),
        ({"text": 3}, "text 0"),
        ({"text": ["bad", "good"]}, "attribute accepts one text. For several texts, write"),
    ],
)
def test_bad_input(classifier, arguments, message):
    with pytest.raises(InputError, match=message):
        attribute(**{"model": classifier, "text": TEXT} | arguments)


def test_bad_targets_of_taggers_and_other_models(tagger):
    with pytest.raises(InputError, match="index of a word"):
        attribute(tagger, "good film", target=2)
    with pytest.raises(InputError, match="index of a word"):
        attribute(tagger, "good film", target="good")
    with pytest.raises(InputError, match="not an? Encoder"):
        attribute(helpers.encoder(), "good film")


@pytest.mark.parametrize(
    "kind, dtype",
    [
        ("albert", "float32"),
        ("electra", "mixed_bfloat16"),
        ("albert", "mixed_float16"),
        ("modernbert", "bfloat16"),
    ],
)
def test_every_width_and_precision_adds_up(kind, dtype):
    # ALBERT and small ELECTRA have embeddings that are narrower than their layers.
    settings = {"num_layers": 2, **network_models.ARCHITECTURES[kind]}
    encoder = helpers.encoder(dtype=dtype, architecture=kind, **settings)
    randomize(encoder)
    model = helpers.TextClassifier(encoder, helpers.tokenizer(), labels=["bad", "good"])
    result = attribute(model, TEXT, target="good", steps=32)
    epsilon = {"float32": 2**-23, "mixed_float16": 2**-10}.get(dtype, 2**-7)
    size = np.abs(scores(result)).sum() + abs(result.output) + abs(result.baseline)
    assert np.abs(scores(result)).max() > 1e-3
    # Both outputs, and each of the 32 gradients, are rounded.
    assert abs(result.gap) <= 1e-3 + 2 * epsilon * size


def test_a_quantized_model_in_16_bits_has_no_gradients():
    model = helpers.classifier(dtype="mixed_bfloat16")
    model.quantize("int8")
    with pytest.raises(InputError, match="Write method='occlusion'"):
        attribute(model, "good film")
    assert np.isfinite(scores(attribute(model, "good film", method="occlusion"))).all()
    with pytest.raises(InputError, match="a model in float16 cannot be quantized"):
        helpers.classifier(dtype="mixed_float16").quantize("int8")
