"""Token classification with a tiny model; behavior of all task models is in test_task_model.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batches.words import find_words, join_words
from keras_bert_impl.tasks import TaggedExamples, TokenClassifier, score_tags
from keras_bert_impl.tasks.tagging.decode import LabelParts
from keras_bert_impl.tasks.tagging.entities import find_entities
from keras_bert_impl.tasks.tagging.word_scores import EntityF1, WordScores
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.tasks import helpers
from tests.tasks.helpers import WORDS, encoder, weights, window_with_most_context
from tests.tasks.tagging.helpers import LABELS, NUMBERS, TAGS, TEXTS, TOKENIZER, flat_logits, tagger


@pytest.fixture(scope="module")
def model():
    return tagger(scale=0.3)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_trains_and_evaluates_consistently():
    model = tagger()
    model.compile(keras.optimizers.Adam(2e-2))
    history = model.fit(TEXTS, TAGS, epochs=8, batch_size=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2
    result = model.evaluate(TEXTS, TAGS, batch_size=5, verbose=0, return_dict=True)
    scores, gold = np.concatenate(model.predict(TEXTS, verbose=0)), np.concatenate(NUMBERS)
    # A mean over words, each counted once, independent of batches and windows.
    assert result["accuracy"] == pytest.approx(np.mean(scores.argmax(axis=1) == gold), abs=1e-6)
    likelihood = np.log(scores[np.arange(len(gold)), gold])
    assert result["loss"] == pytest.approx(-likelihood.mean(), abs=1e-5)
    # Chance is the fraction of O.
    assert result["accuracy"] > np.mean(gold == 0)
    tags = model.tag(TEXTS)
    assert [len(row) for row in tags] == [len(row) for row in TEXTS]
    assert np.mean(sum(tags, []) == np.array(sum(TAGS, []))) == pytest.approx(result["accuracy"])


@pytest.mark.parametrize("aggregation", ["first", "mean", "max"])
def test_scores_of_subwords_are_aggregated(model, aggregation):
    words = ["goods", "film", "notly", "whats"]
    logits, word = flat_logits(model, words)
    pieces = softmax(logits)
    expected = []
    for number in range(4):
        scores = pieces[word == number]
        highest = scores[scores.max(axis=1).argmax()]
        expected.append(
            {"first": scores[0], "mean": scores.mean(axis=0), "max": highest}[aggregation]
        )
    before, model.aggregation = model.aggregation, aggregation
    received = model.predict([words], verbose=0)[0]
    model.aggregation = before
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, expected, atol=1e-6)


def test_words_are_predicted_in_the_window_with_most_context(model):
    words = list(np.random.default_rng(3).choice(WORDS, 23))
    received = model.predict([["a"], words], verbose=0)[1]
    # Windows of 10 words, 6 apart, the last cut short; overlaps of 4 words are halved.
    windows = [(0, 10), (6, 16), (12, 22), (18, 23)]
    for word in range(23):
        start, end = window_with_most_context(word, windows)
        logits, _ = flat_logits(model, words[start:end])
        np.testing.assert_allclose(received[word], softmax(logits[word - start]), atol=1e-6)


def test_accepts_strings(model):
    words = [["what", "a", "film", ",", "not", "dull", "."]]
    np.testing.assert_array_equal(
        model.predict(["what  a film,not dull."], verbose=0)[0], model.predict(words, verbose=0)[0]
    )
    assert model.predict([], verbose=0) == [] and model.tag([]) == []
    assert model.predict([[], "", " "], verbose=0)[2].shape == (0, 3)


def test_words_without_subwords_are_outside(model, with_crf):
    words = [["\u200b", "film", ""]]
    for tagger_ in (model, with_crf):
        scores = tagger_.predict(words, verbose=0)[0]
        assert scores[::2].tolist() == [[1, 0, 0]] * 2 and 0 < scores[1, 0] < 1
        assert tagger_.tag(words)[0][::2] == ["O", "O"]
    sentences = [join_words(words[0])]
    for labels, unknown in ((["B-X", "O"], 1), (["NOUN", "VERB"], 0)):
        relabeled = tagger(labels=labels)
        rows, _ = relabeled.rows(sentences)
        answer = relabeled.joined(np.zeros((1, 3, 2), "float32"), sentences, rows)[0]
        assert answer.scores[:, unknown].tolist() == [1, 0, 1]
        assert answer.tokens.tolist() == [-1, 0, -1]


def test_entities_have_offsets_in_the_text():
    text = "  good  film, awful\n great ."
    tagged = dict(zip(["good", "film", ",", "awful", "great", "."], [1, 2, 0, 2, 1, 2]))
    scores = np.eye(3, dtype="float32")[list(tagged.values())] * 0.75
    answer = WordScores(scores, np.arange(6))
    entities = entities_of(text, answer)
    assert entities == [
        ("X", "good  film", 2, 12, 0.75),
        ("X", "awful", 14, 19, 0.75),
        ("X", "great .", 21, 28, 0.75),
    ]
    # 'awful' and 'great' share a token and become one entity.
    answer = WordScores(scores[[0, 1, 2, 4, 4, 5]], np.array([0, 1, 2, 3, 3, 4]))
    assert entities_of(text, answer)[1:] == [("X", "awful\n great .", 14, 28, 0.75)]


def entities_of(text, answer):
    numbers = answer.scores.argmax(axis=1)
    (entities,) = find_entities([find_words(text)], [answer], [numbers], [answer.scores], LABELS)
    assert all(text[entity.start : entity.end] == entity.text for entity in entities)
    return [tuple(entity) for entity in entities]


def test_entities_of_strings_equal_those_of_words(model):
    texts = ["what a film, not dull.", " ".join(TEXTS[0])]
    for text, entities, tags in zip(texts, model.entities(texts), model.tag(texts)):
        words = find_words(text)
        starts = {entity.start for entity in entities}
        assert starts >= {int(words.starts[i]) for i, tag in enumerate(tags) if tag == "B-X"}
        assert all(text[entity.start : entity.end] == entity.text for entity in entities)
        assert all(0 < entity.score <= 1 for entity in entities)
    assert model.entities([TEXTS[0]]) == model.entities([" ".join(TEXTS[0])])
    with pytest.raises(InputError, match="'NOUN' is not an entity label"):
        tagger(labels=["NOUN", "VERB"]).entities(["a film"])


# === Targets ===


@pytest.mark.parametrize("all_tokens", [False, True])
def test_targets_are_at_the_subwords_of_words(model, all_tokens):
    before, model.label_all_tokens = model.label_all_tokens, all_tokens
    rows, (labels, weighs) = model.rows(model.as_texts(TEXTS), NUMBERS)
    model.label_all_tokens = before
    places = np.asarray(rows.token_ids)
    continued = np.isin(places, TOKENIZER.tokenize(["goods goodly"]).flat_values.numpy()[[1, 3]])
    token_weights = weighs.flat_values.numpy()
    assert set(token_weights) == {0, 1}
    num_tokens = rows.text_splits[-1]
    assert token_weights.sum() == (num_tokens if all_tokens else sum(map(len, TEXTS)))
    assert token_weights[continued].any() == all_tokens
    if not all_tokens:
        label_counts = np.bincount(labels.flat_values.numpy()[token_weights == 1])
        np.testing.assert_array_equal(label_counts, np.bincount(np.concatenate(NUMBERS)))


def test_rejects_labels_on_padding(model):
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    features = {"token_ids": 5 * mask, "segment_ids": 0 * mask, "padding_mask": mask}
    labels = np.ones_like(mask)
    message = r"labels, row 0, position 4: label .* is on padding \(2 in total\)"
    with pytest.raises(InputError, match=message):
        model.evaluate(features, labels, verbose=0)
    with pytest.raises(InputError, match=message):
        model.fit(features, labels, verbose=0)
    message = r"labels must have the shape of the features, \[2, 6\], and be negative"
    with pytest.raises(InputError, match=message):
        model.evaluate(features, labels[:, 1:], verbose=0)
    model.check_labels(np.where(mask, labels, -100), features, None)
    model.check_labels(labels, features, mask)  # a weight of 0 excludes the label


@pytest.mark.slow
def test_features_train_like_texts():
    texts, labels = [words[:4] for words in TEXTS[:8]], [row[:4] for row in NUMBERS[:8]]
    first, second = tagger(), tagger()
    rows, (numbers, weighs) = first.rows(first.as_texts(texts), labels)
    features = {name: np.asarray(x) for name, x in rows.features(np.arange(rows.num_texts)).items()}
    y = np.where(weighs.to_tensor() > 0, numbers.to_tensor(), -100)
    y = np.pad(y, ((0, 0), (0, features["token_ids"].shape[1] - y.shape[1])), constant_values=-1)
    first.fit(texts, labels, batch_size=8, shuffle=False, verbose=0)
    data = tf.data.Dataset.from_tensor_slices((features, y)).batch(8)
    second.fit(data, verbose=0)
    np.testing.assert_allclose(weights(first), weights(second), atol=1e-6)
    assert first.predict(features, verbose=0).shape == (rows.num_texts, 12, 3)


@pytest.mark.slow
def test_replicas_give_the_same_weights():
    # Ten words fill a window, so all batches have the same length; the last one has 4 texts.
    texts = [[word.removesuffix("ly").rstrip("s") for word in TEXTS[0][:10]] for _ in range(12)]
    tags = [(row * 3)[:10] for row in TAGS[:12]]
    tags = [row + ["O"] * (len(texts[0]) - len(row)) for row in tags]
    results = []
    for where in (None, mirrored(2)):
        model = tagger(where)
        model.fit(texts, tags, batch_size=8, shuffle=False, verbose=0)
        results.append(weights(model))
    # Sums in another order; SGD does not amplify rounding errors.
    np.testing.assert_allclose(*results, atol=1e-5)
    assert np.abs(results[0] - weights(tagger())).max() > 1e-3


# === Bad input ===


@pytest.mark.parametrize(
    "x, y, message",
    [
        ([["a", "film"]], [["O"]], "text 0 has 2 words, but 1 labels"),
        (["a film."], [["O", "O"]], "text 0 has 3 words, but 2 labels"),
        ([["a"], ["film"]], [["O"]], "2 texts, but 1 labels"),
        ([["a"]], [["B-Y"]], "text 0, word 0: label 'B-Y' is not one of 'O', 'B-X'"),
        ([["a"]], [[3]], "text 0: class indices must be below 3. Received: 3"),
        ([["a"]], [[0.5]], "text 0 requires label names or integers"),
        ([["a"]], ["O"], "text 0 requires a label for each word"),
        ("a film", [["O"]], "text 0 has 2 words, but 1 labels"),
        ([["a", 1]], [["O", "O"]], "text 0: a word must be a string. Received: int 1"),
        (
            tf.data.Dataset.from_tensor_slices((["a"], [[0]])).batch(1),
            None,
            "Pass a list of texts, or a dataset of features",
        ),
    ],
)
def test_rejects_labels_that_do_not_match_the_texts(model, x, y, message):
    with pytest.raises(InputError, match=message):
        model.fit(x, y, verbose=0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"labels": None}, "pass num_classes or labels"),
        ({"doc_stride": 0}, "doc_stride must be a positive integer"),
        ({"aggregation": "last"}, "aggregation must be one of first, mean, max"),
        ({"crf": True, "label_all_tokens": True}, "crf uses the first subword"),
        ({"crf": True, "aggregation": "mean"}, "crf uses the first subword"),
    ],
)
def test_rejects_invalid_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        tagger(**arguments)


def test_a_tuple_of_texts_is_several_texts():
    model = TokenClassifier(encoder(), helpers.tokenizer(), labels=["O", "B-X"])
    texts = "good film", "bad"
    assert model.tag(texts) == model.tag(list(texts)) and len(model.tag(texts)) == 2
    assert model.entities(texts) == model.entities(list(texts))


def test_one_label_is_refused_and_a_label_beside_entities_is_named(caplog):
    with pytest.raises(InputError, match="a classifier requires at least two classes"):
        tagger(labels=["O"])
    tagger(labels=["0", "B-X", "I-X"])
    assert "the labels are not entity labels because of '0'. Use 'O'" in caplog.text


def test_words_of_spaces_are_trained():
    model = tagger()
    texts = [["good", " ", "bad"]]
    model.fit(texts, [["B-X", "O", "O"]], verbose=0)
    assert [len(row) for row in model.tag(texts)] == [3]
    assert model.evaluate(texts, [["B-X", "O", "O"]], verbose=0, return_dict=True)["loss"] > 0


def test_a_single_word_entity_of_bmewo_counts_in_every_metric():
    labels = ["O", "B-X", "M-X", "E-X", "W-X"]
    for names in (labels, ["O", "W-X"]):
        metric = EntityF1(names)
        gold = np.array([[names.index("W-X"), 0, names.index("W-X")]])
        metric.update_state(gold, np.eye(len(names), dtype="float32")[gold])
        assert float(metric.result()) == 1
        assert LabelParts(names).types.count("X") == 1
        tags = [[names[number] for number in row] for row in gold]
        scores = score_tags(TaggedExamples([["a", "b", "c"]], tags, names), tags)
        assert scores["f1"] == scores["f1/X"] == 1


@pytest.mark.parametrize("flags", [{}, {"rstrip": True}, {"lstrip": True, "rstrip": True}])
def test_words_that_are_added_tokens_are_trained(flags):
    tokenizer = TOKENIZER.add_tokens([{"content": "<q>", "special": True, **flags}])
    parts = encoder(vocabulary_size=tokenizer.vocabulary_size, use_pooler=False)
    model = TokenClassifier(parts, tokenizer, labels=LABELS, max_length=12)
    words = ["good", "<q>", "<q>", "film", "<q>"]
    targets, weights = model.rows(model.as_texts([words]), [np.array([0, 1, 2, 0, 1])])[1]
    assert weights.to_list() == [[0, 1, 1, 1, 1, 1, 0]]
    assert targets.to_list() == [[0, 0, 1, 2, 0, 1, 0]]
    # A graph splits at punctuation, so that three words share the token.
    served = model.signatures().words(tf.constant(["good <q> film"]))["label_ids"].numpy()
    expected = [[LABELS.index(label) for label in model.tag("good <q> film")]]
    assert served.tolist() == expected
