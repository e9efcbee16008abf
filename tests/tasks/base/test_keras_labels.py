"""Labels, weights and single batches of task models, as Keras users pass them."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.tasks import (
    NextSentencePredictor,
    QuestionAnswerer,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import GOOD, classifier, encoder, examples, tokenizer

TEXTS, LABELS = examples(count=64)
EAGER = {"metrics": [], "run_eagerly": True}  # traces nothing
NUMBERS = [["negative", "positive"].index(label) for label in LABELS]


def tagger(**arguments):
    return TokenClassifier(encoder(dropout=0.0), tokenizer(), labels=["O", "B-X"], **arguments)


def words_and_labels():
    words = [text.split() for text in TEXTS]
    return words, [["B-X" if word in GOOD else "O" for word in row] for row in words]


# === Sample and class weights ===


FACTORS = np.array([5.0, 0.5])[NUMBERS]


@pytest.mark.parametrize("task", ["names", "one_hot", "data_set", "pairs"])
def test_class_weights_equal_sample_weights(task):
    soft, sample_weights = np.eye(2)[NUMBERS], np.linspace(1, 2, 64)
    model, x, y, arguments = classifier(dropout=0.0), TEXTS, LABELS, {}
    if task == "names":
        arguments = {"sample_weight": sample_weights}
    elif task == "pairs":  # the network's first output is for label 1
        model = NextSentencePredictor(encoder(dropout=0.0), tokenizer())
        x, y = list(zip(TEXTS, TEXTS[::-1])), NUMBERS
    else:
        y = soft
    model.compile(AdamW(0.0), "categorical_crossentropy" if y is soft else None, **EAGER)
    weight = FACTORS * sample_weights if arguments else FACTORS
    expected = model.evaluate(x, y, 64, sample_weight=weight, verbose=0)
    if task == "data_set":
        x, y = tf.data.Dataset.from_tensor_slices((TEXTS, soft)).batch(64), None
    factors = {0: 5.0, 1: 0.5}
    history = model.fit(x, y, 64, class_weight=factors, verbose=0, **arguments).history
    assert history["loss"][0] == pytest.approx(expected, rel=1e-5)
    if y is not None:
        loss = model.train_on_batch(x, y, class_weight=factors, **arguments)
        assert loss == pytest.approx(expected, rel=1e-5)


def test_class_weights_apply_to_words():
    words, labels = words_and_labels()
    model, sample_weights = tagger(), np.linspace(1, 2, 64)
    model.compile(AdamW(0.0), **EAGER)
    weights = {"class_weight": {"O": 5.0, "B-X": 0.5}, "sample_weight": sample_weights}
    loss = model.fit(words, labels, 64, verbose=0, **weights).history["loss"][0]
    scores = np.concatenate(model.predict(words, verbose=0))
    numbers = np.concatenate([[int(label == "B-X") for label in row] for row in labels])
    counts = np.array([5.0, 0.5])[numbers] * np.repeat(sample_weights, [len(row) for row in words])
    losses = -np.log(scores[np.arange(len(numbers)), numbers])
    assert loss == pytest.approx(np.sum(losses * counts) / np.sum(counts), rel=1e-5)
    model.fit(words, labels, 64, class_weight="balanced", verbose=0)


def test_rejects_class_weights_without_classes():
    questions, answers = [("which", "a film")], [("film", 2)]
    answerer = QuestionAnswerer(encoder(), tokenizer(), 24, 8, 8)
    embedder = TextEmbedder(encoder(), tokenizer())
    for model, x, y in ((answerer, questions, answers), (embedder, [("a", "film")], [0.5])):
        with pytest.raises(InputError, match="Use sample_weight, a number for each example"):
            model.fit(x, y, class_weight={0: 1.0, 1: 5.0}, verbose=0)
    with pytest.raises(InputError, match="the loss of a CRF is per text"):
        tagger(crf=True).fit([["good"]], [["O"]], class_weight="balanced", verbose=0)
    model = classifier()
    model.compile(AdamW(1e-3), "categorical_crossentropy")
    with pytest.raises(InputError, match="no text has the label 'negative'"):
        model.fit(["good"], [[0.3, 0.7]], class_weight="balanced", verbose=0)


def test_sample_weights_apply_to_questions():
    questions = [("which word", text) for text in TEXTS]
    answers = [(text.split()[0], 0) for text in TEXTS]
    model = QuestionAnswerer(encoder(dropout=0.0), tokenizer(), 24, 8, 8)
    model.compile(AdamW(0.0), weighted_metrics=["accuracy", "exact_match"], **EAGER)
    marks = np.linspace(0, 1, 64)[:, None]  # a column, as from a table
    losses = [
        model.evaluate(questions, answers, sample_weight=weight, verbose=0)[0]
        for weight in (None, marks, 1 - marks)
    ]
    assert losses[0] == pytest.approx(losses[1] + losses[2], rel=1e-5)
    model.fit(questions, answers, sample_weight=marks, verbose=0)


# === Labels of datasets ===


@pytest.mark.parametrize(
    "make, labels, message",
    [
        (classifier, [5] * 64, "labels must be class indices from 0 to 1. Received: 5"),
        (classifier, [-1] * 64, "class indices from 0 to 1. Received: -1"),
        (classifier, [0.7] * 64, "class indices from 0 to 1. Received: 0.7"),
        (classifier, [np.nan] * 64, "class indices from 0 to 1. Received: nan"),
        (classifier, np.eye(3)[NUMBERS], r"one-hot rows, \[batch, 2\]"),
        (lambda: classifier(labels=["größe", "a"]), ["x"] * 64, "among 'größe', 'a'. Received: x"),
        (classifier, {"label": NUMBERS}, "Received: dict"),
        (
            lambda: classifier(problem_type="multi_label_classification"),
            np.full((64, 2), 5),
            "labels must be 0 and 1. Received: .*5",
        ),
        (
            lambda: classifier(problem_type="multi_label_classification"),
            np.full((64, 2), np.nan),
            "labels must be 0 and 1",
        ),
        (
            lambda: classifier(problem_type="multi_label_classification"),
            NUMBERS,
            r"0 and 1, \[batch, 2\]",
        ),
        (lambda: classifier(labels=["v"]), [np.nan] * 64, "1 finite number"),
        (lambda: classifier(labels=["v"]), ["1.5"] * 64, "1 finite number.*Received: string"),
        (lambda: classifier(labels=["v"]), np.ones((64, 2)), "1 finite number"),
    ],
)
def test_rejects_invalid_labels_in_a_data_set(make, labels, message):
    data = tf.data.Dataset.from_tensor_slices((TEXTS, labels)).batch(8)
    with pytest.raises(InputError, match=message):
        make().evaluate(data, verbose=0)


def test_rejects_invalid_labels_in_data_sets_of_other_tasks():
    words, _ = words_and_labels()
    model = tagger()
    features = {name: np.asarray(value) for name, value in model.tokenizer(TEXTS[:8]).items()}
    labels = np.full(features["token_ids"].shape, 7)
    data = tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
    with pytest.raises(InputError, match="class indices from 0 to 1. Received: 7"):
        model.evaluate(data, verbose=0)
    embedder = TextEmbedder(encoder(), tokenizer())
    pairs = list(zip(TEXTS, TEXTS))
    data = tf.data.Dataset.from_tensor_slices((pairs, [5.0] * 64)).batch(8)
    with pytest.raises(InputError, match="cosines, from -1 to 1. Scale the labels. Received: 5"):
        embedder.evaluate(data, verbose=0)
    predictor = NextSentencePredictor(encoder(), tokenizer())
    data = tf.data.Dataset.from_tensor_slices(((TEXTS, TEXTS), [2] * 64)).batch(8)
    with pytest.raises(InputError, match="class indices from 0 to 1. Received: 2"):
        predictor.evaluate(data, verbose=0)
    with pytest.raises(InputError, match="must yield pairs"):
        predictor.evaluate(tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS)).batch(8))


def test_takes_label_columns_in_data_sets():
    model = classifier(dropout=0.0)
    model.compile()
    expected = model.evaluate(TEXTS, LABELS, verbose=0)
    column = np.array(LABELS)[:, None]
    for labels in (column, np.eye(2, dtype=bool)[NUMBERS], np.array(NUMBERS, float)):
        data = tf.data.Dataset.from_tensor_slices((TEXTS, labels)).batch(64)
        assert model.evaluate(data, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.evaluate(TEXTS, column, verbose=0) == expected


def test_rejects_rows_of_a_data_set_with_the_line_to_write():
    rows = tf.data.Dataset.from_tensor_slices({"text": TEXTS, "label": NUMBERS}).batch(8)
    line = r"Write data.map\(lambda row: \(row\['text'\], row\['label'\]\)\)"
    with pytest.raises(InputError, match=line):
        classifier().fit(rows, verbose=0)
    with pytest.raises(InputError, match=r"data.map\(lambda row: row\['text'\]\)"):
        classifier().predict(rows, verbose=0)
    for first, second in (
        ("sentence1", "sentence2"),
        ("premise", "hypothesis"),
        ("text_a", "text_b"),
    ):
        columns = {"id": TEXTS, first: TEXTS, second: TEXTS, "label": NUMBERS}
        rows = tf.data.Dataset.from_tensor_slices(columns).batch(8)
        line = rf"lambda row: \(\(row\['{first}'\], row\['{second}'\]\), row\['label'\]\)"
        with pytest.raises(InputError, match=line):
            classifier().fit(rows, verbose=0)
    four = tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS, NUMBERS, NUMBERS)).batch(8)
    with pytest.raises(InputError, match="Received: 4 elements"):
        classifier().fit(four, verbose=0)


def test_there_is_one_loss_to_weigh():
    with pytest.raises(InputError, match="loss_weights require a model with several losses"):
        classifier().compile("adam", loss_weights=[10.0])


def test_models_train_in_two_threads_as_alone():
    def fitted(seed):
        model = classifier(seed=seed)
        model.compile(keras.optimizers.Adam(1e-2), seed=seed)
        models[seed] = model
        return threading.Thread(
            target=lambda: model.fit(TEXTS, LABELS, epochs=2, batch_size=8, verbose=0)
        )

    models, alone = {}, {}
    for seed in (1, 2):
        thread = fitted(seed)
        thread.start()
        thread.join()
        alone[seed] = models[seed].get_weights()
    threads = [fitted(1), fitted(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (1, 2):
        for received, expected in zip(models[seed].get_weights(), alone[seed], strict=True):
            np.testing.assert_array_equal(received, expected)


# === Single batches, and calling the model ===


def test_is_called_on_symbolic_ids_alone():
    model = classifier()
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    whole = keras.Model(ids, model({"token_ids": ids}))
    token_ids = np.asarray(model.tokenizer(TEXTS[:3])["token_ids"])
    np.testing.assert_allclose(whole(token_ids), model({"token_ids": token_ids}), atol=1e-6)


def test_trains_and_predicts_on_one_batch():
    model = classifier(dropout=0.0)
    with pytest.raises(InputError, match="Call compile\\(optimizer"):
        model.train_on_batch(TEXTS, LABELS)
    model.compile(keras.optimizers.Adam(1e-2), metrics=["accuracy"])
    first = model.train_on_batch(TEXTS, LABELS)[0]
    for _ in range(30):
        loss, accuracy = model.train_on_batch(TEXTS, LABELS)
    assert loss < 0.3 * first and accuracy > 0.9
    model.reset_metrics()
    expected = model.evaluate(TEXTS, LABELS, verbose=0)
    assert model.test_on_batch(TEXTS, LABELS) == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(
        model.predict_on_batch(TEXTS), model.predict(TEXTS, verbose=0), atol=1e-6
    )


def test_model_call_takes_texts_and_features():
    model = classifier()
    logits = model(TEXTS[:3])
    features = model.tokenizer(TEXTS[:3])
    np.testing.assert_allclose(logits, model(features), atol=1e-6)
    ids = {"token_ids": features["token_ids"]}  # the default mask covers all but padding
    np.testing.assert_allclose(logits, model(ids), atol=1e-6)
    np.testing.assert_allclose(
        model.predict({"token_ids": np.asarray(ids["token_ids"])}, verbose=0),
        model.predict(TEXTS[:3], verbose=0),
        atol=1e-6,
    )
    single = model(TEXTS[0])
    ids = {"token_ids": model.tokenizer(TEXTS[:1])["token_ids"]}
    for inputs in (TEXTS[:1], tf.constant(TEXTS[:1]), ids):
        np.testing.assert_allclose(model(inputs), single, atol=1e-6)
    with pytest.raises(InputError, match="there are no texts"):
        model([])
    with pytest.raises(InputError, match='Write {"token_ids": x\\["input_ids"\\]}'):
        model.predict({"input_ids": np.ones((2, 3), "int32")})


def test_takes_features_as_lists():
    model = classifier(dropout=0.0)
    features = {name: np.asarray(value) for name, value in model.tokenizer(TEXTS[:3]).items()}
    expected = model.predict(features, verbose=0)
    lists = {name: value.tolist() for name, value in features.items()}
    floats = {name: value.astype("float32") for name, value in features.items()}
    for inputs in (lists, floats, features | {"padding_mask": features["padding_mask"] == 1}):
        np.testing.assert_array_equal(model.predict(inputs, verbose=0), expected)
    np.testing.assert_allclose(
        model.predict({"token_ids": lists["token_ids"]}, verbose=0), expected, atol=1e-6
    )


@pytest.mark.parametrize(
    "features, message",
    [
        ({"token_ids": [[2, 5, 3], [2, 3]]}, "token_ids: rows differ in length; pad them"),
        ({"token_ids": [2, 5, 3]}, r"token_ids must be integers \[rows, length\]"),
        ({"token_ids": [[2, 5.5, 3]]}, r"token_ids must be integers. Received: 5.5 at \[0, 1\]"),
        ({"token_ids": [[2, 3]], "padding_mask": [[2, 0.5]]}, "padding_mask must be 0 or 1"),
        ({"token_ids": np.ones((1, 64), int)}, "token_ids must have at most 32 columns"),
    ],
)
def test_rejects_invalid_features(features, message):
    with pytest.raises(InputError, match=message):
        classifier().predict(features, verbose=0)
