"""Task models behave like Keras models: `compile`, `fit`, `.keras` files, copies."""

import copy
import pickle
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import losses, metrics

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.runs.distillation import RDrop
from keras_bert_impl.tasks import (
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.training.optimizers.adamw import AdamW
from tests.tasks.helpers import GOOD, classifier, encoder, examples, tokenizer, weights

TEXTS, LABELS = examples(count=64)
EAGER = {"metrics": [], "run_eagerly": True}  # traces nothing
NUMBERS = [["negative", "positive"].index(label) for label in LABELS]


def tagger(**arguments):
    return TokenClassifier(encoder(dropout=0.0), tokenizer(), labels=["O", "B-X"], **arguments)


def words_and_labels():
    words = [text.split() for text in TEXTS]
    return words, [["B-X" if word in GOOD else "O" for word in row] for row in words]


# === compile ===


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        pytest.param("binary_crossentropy", marks=pytest.mark.slow),
        pytest.param(losses.CategoricalCrossentropy(label_smoothing=0.05), marks=pytest.mark.slow),
    ],
    ids=["sparse", "binary", "smoothed"],
)
def test_fits_with_the_usual_keras_compile_line(loss):
    model = classifier(dropout=0.0)
    model.compile(keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy", "f1", "auc"])
    history = model.fit(TEXTS, LABELS, epochs=12, verbose=0).history
    assert history["accuracy"][-1] > 0.95 and history["auc"][-1] > 0.95
    found = model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    assert found["accuracy"] == np.mean(np.array(model.classify(TEXTS)) == LABELS)


def a_tagger():
    return tagger(), *words_and_labels(), ["accuracy", "entity_f1", "macro_f1", metrics.AUC()]


def an_answerer():
    model = QuestionAnswerer(encoder(dropout=0.0), tokenizer(), 24, 8, 8)
    questions = [("which word", text) for text in TEXTS]
    answers = [(text.split()[0], 0) for text in TEXTS]
    return model, questions, answers, ["accuracy", "exact_match", "f1"]


def a_chooser():
    endings = (["bad", "good"], ["good", "bad"])
    prompts = [("the film is", endings[number]) for number in NUMBERS]
    return MultipleChoice(encoder(dropout=0.0), tokenizer()), prompts, [0] * 64, ["accuracy"]


def a_next_sentence_predictor():
    model = NextSentencePredictor(encoder(dropout=0.0), tokenizer())
    pairs = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1]))
    return model, pairs, NUMBERS, ["accuracy", "f1", "matthews", "precision"]


@pytest.mark.parametrize(
    "task",
    [
        a_tagger,
        an_answerer,
        pytest.param(a_chooser, marks=pytest.mark.slow),
        pytest.param(a_next_sentence_predictor, marks=pytest.mark.slow),
    ],
)
def test_every_task_trains_with_a_named_loss(task):
    model, x, y, scores = task()
    built_in = _one_loss(model, None, x, y)
    for loss in (
        "sparse_categorical_crossentropy",
        losses.CategoricalCrossentropy(),
        losses.SparseCategoricalCrossentropy(from_logits=True),
    ):
        assert _one_loss(model, loss, x, y) == pytest.approx(built_in, rel=1e-4)
    model.compile(AdamW(3e-3), "sparse_categorical_crossentropy", scores)
    logs = model.fit(x, y, epochs=1, verbose=0).history
    assert all(0 <= logs[name][-1] <= 1 for name in logs if name != "loss")
    assert len(logs) == 1 + len(scores)


def _one_loss(model, loss, x, y):
    model.compile(AdamW(1e-3), loss, [])
    return model.evaluate(x, y, verbose=0)


def test_tagger_metrics_count_only_words():
    words, labels = words_and_labels()
    model = tagger()
    model.compile(metrics=["accuracy", "entity_f1", metrics.Precision(name="precision")])
    found = model.evaluate(words, labels, verbose=0, return_dict=True)
    model.compile(metrics=["accuracy"])
    assert found["accuracy"] == model.evaluate(words, labels, verbose=0)[1]
    guessed = np.concatenate(model.tag(words)) == "B-X"
    wanted = np.concatenate(labels) == "B-X"
    assert found["precision"] == pytest.approx(np.mean(wanted[guessed]), abs=1e-6)


def test_crf_metrics_use_marginal_probabilities():
    words, labels = words_and_labels()
    model = tagger(crf=True)
    model.crf_layer.transitions.assign([[0.0, 3.0], [-2.0, 1.0]])
    model.compile(metrics=[metrics.Precision(thresholds=0.6)])
    found = model.evaluate(words, labels, verbose=0)[1]
    guessed = np.concatenate([row[:, 1] for row in model.predict(words, verbose=0)]) > 0.6
    wanted = np.concatenate(labels) == "B-X"
    assert found == pytest.approx(np.mean(wanted[guessed]), abs=1e-6)
    with pytest.raises(InputError, match="loss must be None"):
        model.compile(loss="sparse_categorical_crossentropy")


def test_soft_labels_need_a_loss_that_takes_them():
    soft = np.array([[0.3, 0.7] if n else [1.0, 0.0] for n in NUMBERS])
    model = classifier(dropout=0.0)
    with pytest.raises(InputError, match="write compile\\(loss='categorical_crossentropy'\\)"):
        model.fit(TEXTS, soft, verbose=0)
    model.compile(AdamW(1e-3), "categorical_crossentropy", ["accuracy"])
    loss = model.evaluate(TEXTS, soft.tolist(), verbose=0)[0]
    expected = -np.sum(soft * np.log(model.predict(TEXTS, verbose=0)), axis=1).mean()
    assert loss == pytest.approx(expected, rel=1e-5)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, soft.astype("float32"))).batch(16)
    assert model.evaluate(data, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


def test_one_hot_labels_equal_class_numbers():
    one_hot = np.eye(2)[NUMBERS]
    model = classifier(dropout=0.0)
    model.compile()
    expected = model.evaluate(TEXTS, LABELS, verbose=0)
    assert model.evaluate(TEXTS, one_hot.tolist(), verbose=0) == pytest.approx(expected)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, one_hot)).batch(16)
    assert model.evaluate(data, verbose=0) == pytest.approx(expected, rel=1e-5)
    soft = tf.data.Dataset.from_tensor_slices((TEXTS, one_hot * 0.8 + 0.1)).batch(16)
    with pytest.raises(InputError, match="not one-hot"):
        model.evaluate(soft, verbose=0)


@pytest.mark.parametrize(
    "model, name, message",
    [
        (lambda: classifier(labels=["a", "b", "c"]), "f1", "Its scores are 'macro_f1', 'matthews'"),
        (tagger, "f1", "'entity_f1'"),
        (lambda: classifier(problem_type="regression"), "matthews", "Its scores are none"),
    ],
)
def test_rejects_a_score_of_another_task_and_lists_its_own(model, name, message):
    with pytest.raises(InputError, match=message):
        model().compile(metrics=[name])


def test_takes_one_hot_labels_of_words_and_endings():
    words, labels = words_and_labels()
    model = tagger()
    one_hot = [np.eye(2)[[int(label == "B-X") for label in row]].tolist() for row in labels]
    assert model.evaluate(words, one_hot, verbose=0) == model.evaluate(words, labels, verbose=0)
    with pytest.raises(InputError, match=r"text 0: one-hot labels .*\[1.0, 1.0\]"):
        model.fit([["good", "bad"]], [[[1.0, 1.0], [1.0, 0.0]]], verbose=0)
    model = MultipleChoice(encoder(dropout=0.0), tokenizer())
    prompts = [("the film is", ["good", "bad"]), ("a joy is", ["great", "dull"])]
    assert model.evaluate(prompts, [[0, 1], [1, 0]], verbose=0) == model.evaluate(
        prompts, [1, 0], verbose=0
    )


def test_embedder_rejects_metrics():
    embedder = TextEmbedder(encoder(), tokenizer())
    with pytest.raises(InputError, match=r"keras_bert_impl.evaluate\(embedder, examples\)"):
        embedder.compile(metrics=["mse"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"optimizer": keras.optimizers.Adam}, r"Received: Adam.*write compile\(optimizer=Adam\("),
        ({"optimizer": "adamw2"}, "optimizer must be a name or an object of keras.optimizers"),
        ({"optimizer": 5e-5}, r"write compile\(learning_rate=5e-05\)"),
        ({"learning_rate": "5e-5"}, "learning_rate must be a number"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number"),
        (
            {"learning_rate": keras.optimizers.schedules.CosineDecay(1e-3, 10)},
            r"write compile\(optimizer=AdamW\(schedule\)\)",
        ),
        ({"seed": "a"}, "seed must be an integer"),
        ({"seed": None}, "seed must be an integer"),
    ],
)
def test_rejects_invalid_compile_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        classifier().compile(**arguments)


@pytest.mark.on_tensorflow
def test_learning_rate_sets_the_default_optimizer():
    model = classifier()
    model.compile(learning_rate=1e-3)
    model.fit(TEXTS, LABELS, epochs=2, verbose=0)  # 4 steps
    assert model.optimizer.learning_rate.numpy() == 0
    model.optimizer.iterations.assign(0)
    assert model.optimizer.learning_rate.numpy() == pytest.approx(1e-3)
    with pytest.raises(InputError, match="either an optimizer or the learning_rate"):
        model.compile("adam", learning_rate=1e-3)


# === fit ===


def test_training_accuracy_excludes_earlier_evaluations():
    model = classifier(dropout=0.0)
    model.fit(TEXTS, LABELS, epochs=12, verbose=0)
    model.compile(learning_rate=1e-9)
    right = model.classify(TEXTS)
    wrong = ["negative" if label == "positive" else "positive" for label in right]
    assert model.evaluate(TEXTS, wrong, verbose=0)[1] == 0
    assert model.fit(TEXTS, right, verbose=0).history["accuracy"] == [1.0]


@pytest.mark.on_tensorflow
def test_second_fit_does_not_retrace(monkeypatch):
    model = classifier()
    traces = []
    step = model.train_step
    monkeypatch.setattr(model, "train_step", lambda data: traces.append(1) or step(data))
    for epochs in (1, 2, 3):
        model.fit(TEXTS[: 40 + epochs], LABELS[: 40 + epochs], epochs=epochs, verbose=0)
    assert len(traces) == 1


@pytest.mark.slow
def test_each_fit_restarts_the_default_optimizer():
    first, second = classifier(), classifier()
    first.fit(TEXTS, LABELS, epochs=2, verbose=0)
    second.set_weights(first.get_weights())
    for model in (first, second):
        model.fit(TEXTS, LABELS, epochs=3, verbose=0)
    np.testing.assert_array_equal(weights(first), weights(second))


def test_layers_frozen_between_fits_do_not_change():
    model = classifier()
    model.fit(TEXTS, LABELS, verbose=0)
    model.encoder.trainable = False
    before = [np.array(weight) for weight in model.encoder.get_weights()]
    head = model.head_layer.get_weights()[0]
    model.fit(TEXTS, LABELS, verbose=0)
    assert all(np.array_equal(*pair) for pair in zip(before, model.encoder.get_weights()))
    assert not np.array_equal(head, model.head_layer.get_weights()[0])


def test_run_restored_by_keras_sees_the_batches_of_an_uninterrupted_one(tmp_path):
    class Interruption(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    whole, parts = classifier(), classifier()
    whole.fit(TEXTS, LABELS, epochs=4, verbose=0)
    backup = lambda: keras.callbacks.BackupAndRestore(tmp_path / "backup")  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        parts.fit(TEXTS, LABELS, epochs=4, verbose=0, callbacks=[backup(), Interruption()])
    resumed = classifier(seed=5)
    history = resumed.fit(TEXTS, LABELS, epochs=4, verbose=0, callbacks=backup())
    assert history.epoch == [2, 3]
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    assert resumed.fit(TEXTS, LABELS, epochs=1, verbose=0).epoch == [0]


@pytest.mark.slow
def test_data_sets_disable_the_autotuner():
    model = classifier()
    seen = []
    for name in ("fit", "evaluate", "predict"):
        original = getattr(keras.Model, name)

        def spy(self, x, *args, _original=original, **kwargs):
            seen.append(x.options().autotune.enabled)
            return _original(self, x, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keras.Model, name, spy)
            ids = {"token_ids": np.full((4, 5), 6, "int32")}
            data = tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS)).batch(8)
            for x, y in ((TEXTS, NUMBERS), (ids, [0, 1, 0, 1]), (data, None)):
                arguments = (x,) if name == "predict" or y is None else (x, y)
                getattr(model, name)(*arguments, verbose=0)
    assert seen and not any(seen)


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 0},
        {"batch_size": 2.5},
        {"steps_per_epoch": 0},
        {"validation_batch_size": -1},
        {"validation_steps": 0},
        {"validation_freq": 0},
    ],
)
def test_sizes_must_be_positive(arguments):
    with pytest.raises(InputError, match=f"{next(iter(arguments))} must be a positive integer"):
        classifier().fit(TEXTS, LABELS, verbose=0, **arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"epochs": 1.5}, "epochs must be an integer, at least 0, got 1.5"),
        ({"epochs": "3"}, "epochs must be an integer"),
        ({"epochs": None}, "epochs must be an integer"),
        ({"initial_epoch": -1}, "initial_epoch must be an integer, at least 0"),
        ({"validation_split": float("nan")}, "validation_split must be a number"),
        ({"validation_split": "0.1"}, "validation_split must be a number"),
        ({"validation_split": 25}, "validation_split must be a number"),
        ({"sample_weight": ["a"] * 64}, "sample_weight must have one number per text"),
        ({"sample_weight": [[1], [1, 2]] * 32}, "sample_weight must have one number per text"),
        ({"sample_weight": {"a": 1}}, "sample_weight must have one number per text"),
        ({"sample_weight": np.ones((64, 2))}, "sample_weight has shape"),
        ({"sample_weight": [-1.0] * 64}, "of text 0 must be from 0 to 1e.09"),
        ({"validation_data": TEXTS}, "validation_data must be .texts, labels."),
        ({"validation_data": list(zip(TEXTS, LABELS))}, "validation_data must be .texts, labels."),
        ({"validation_data": ()}, "validation_data must be .texts, labels."),
        ({"callbacks": [keras.callbacks.TerminateOnNaN]}, r"Write TerminateOnNaN\(...\)"),
        ({"callbacks": "earlystopping"}, "callbacks must be objects of keras.callbacks"),
        (
            {"callbacks": keras.callbacks.ReduceLROnPlateau()},
            r"ReduceLROnPlateau sets the learning rate.*First call compile\(optimizer=AdamW",
        ),
    ],
)
def test_rejects_invalid_fit_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        classifier().fit(TEXTS, LABELS, verbose=0, **arguments)


def test_finished_run_does_not_train():
    model = classifier()
    before = weights(model)
    assert model.fit(TEXTS, LABELS, epochs=2, initial_epoch=2, verbose=0).history == {}
    assert model.fit(TEXTS, LABELS, epochs=0, verbose=0).history == {}
    np.testing.assert_array_equal(weights(model), before)


def test_steps_select_the_first_batches():
    model = classifier(dropout=0.0)
    model.compile(AdamW(0.0), **EAGER)
    first = model.evaluate(TEXTS[:16], LABELS[:16], verbose=0)
    assert model.evaluate(TEXTS, LABELS, batch_size=8, steps=2, verbose=0) == pytest.approx(first)
    scores = model.predict(TEXTS, batch_size=8, steps=2, verbose=0)
    np.testing.assert_allclose(scores, model.predict(TEXTS[:16], verbose=0), atol=1e-6)
    settings = {"validation_batch_size": 8, "validation_steps": 2, "verbose": 0}
    history = model.fit(TEXTS, LABELS, validation_data=(TEXTS, LABELS), **settings).history
    assert history["val_loss"][0] == pytest.approx(first)
    for name in ("evaluate", "predict"):
        with pytest.raises(InputError, match="steps must be a positive integer"):
            getattr(model, name)(TEXTS, steps=0, verbose=0)


def test_steps_count_examples_with_several_rows():
    chooser = MultipleChoice(encoder(dropout=0.0), tokenizer())
    prompts = [("the film", ["good", "bad", "dull"][: 2 + n % 2]) for n in range(6)]
    assert len(chooser.predict(prompts, batch_size=2, steps=2, verbose=0)) == 4


@pytest.mark.parametrize(
    "beside", [{"y": LABELS}, {"sample_weight": [0.0] * 64}, {"validation_split": 0.2}]
)
def test_rejects_other_data_arguments_with_batches(beside):
    data = tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS)).batch(8)
    with pytest.raises(InputError, match=f"leave out '{next(iter(beside))}'"):
        classifier().fit(data, verbose=0, **beside)
    if "validation_split" not in beside:
        with pytest.raises(InputError, match="leave out"):
            classifier().evaluate(data, verbose=0, **beside)


# === Sample and class weights ===


FACTORS = np.array([5.0, 0.5])[NUMBERS]


@pytest.mark.parametrize("task", ["names", "one_hot", "data_set", "pairs"])
def test_class_weights_equal_sample_weights(task):
    soft, own = np.eye(2)[NUMBERS], np.linspace(1, 2, 64)
    model, x, y, more = classifier(dropout=0.0), TEXTS, LABELS, {}
    if task == "names":
        more = {"sample_weight": own}
    elif task == "pairs":  # the network's first output is for label 1
        model = NextSentencePredictor(encoder(dropout=0.0), tokenizer())
        x, y = list(zip(TEXTS, TEXTS[::-1])), NUMBERS
    else:
        y = soft
    model.compile(AdamW(0.0), "categorical_crossentropy" if y is soft else None, **EAGER)
    weight = FACTORS * own if more else FACTORS
    expected = model.evaluate(x, y, 64, sample_weight=weight, verbose=0)
    if task == "data_set":
        x, y = tf.data.Dataset.from_tensor_slices((TEXTS, soft)).batch(64), None
    factors = {0: 5.0, 1: 0.5}
    history = model.fit(x, y, 64, class_weight=factors, verbose=0, **more).history
    assert history["loss"][0] == pytest.approx(expected, rel=1e-5)
    if y is not None:
        one = model.train_on_batch(x, y, class_weight=factors, **more)
        assert one == pytest.approx(expected, rel=1e-5)


def test_class_weights_apply_to_words():
    words, labels = words_and_labels()
    model, own = tagger(), np.linspace(1, 2, 64)
    model.compile(AdamW(0.0), **EAGER)
    weights = {"class_weight": {"O": 5.0, "B-X": 0.5}, "sample_weight": own}
    loss = model.fit(words, labels, 64, verbose=0, **weights).history["loss"][0]
    scores = np.concatenate(model.predict(words, verbose=0))
    numbers = np.concatenate([[int(label == "B-X") for label in row] for row in labels])
    counts = np.array([5.0, 0.5])[numbers] * np.repeat(own, [len(row) for row in words])
    losses = -np.log(scores[np.arange(len(numbers)), numbers])
    assert loss == pytest.approx(np.sum(losses * counts) / np.sum(counts), rel=1e-5)
    model.fit(words, labels, 64, class_weight="balanced", verbose=0)


def test_rejects_class_weights_without_classes():
    questions, answers = [("which", "a film")], [("film", 2)]
    answerer = QuestionAnswerer(encoder(), tokenizer(), 24, 8, 8)
    embedder = TextEmbedder(encoder(), tokenizer())
    for model, x, y in ((answerer, questions, answers), (embedder, [("a", "film")], [0.5])):
        with pytest.raises(InputError, match="use sample_weight, a number for each example"):
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
        (classifier, [5] * 64, "labels must be class numbers from 0 to 1. Received: 5"),
        (classifier, [-1] * 64, "class numbers from 0 to 1. Received: -1"),
        (classifier, [0.7] * 64, "class numbers from 0 to 1. Received: 0.7"),
        (classifier, [np.nan] * 64, "class numbers from 0 to 1. Received: nan"),
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
    with pytest.raises(InputError, match="class numbers from 0 to 1. Received: 7"):
        model.evaluate(data, verbose=0)
    embedder = TextEmbedder(encoder(), tokenizer())
    pairs = list(zip(TEXTS, TEXTS))
    data = tf.data.Dataset.from_tensor_slices((pairs, [5.0] * 64)).batch(8)
    with pytest.raises(InputError, match="cosines, from -1 to 1: scale them. Received: 5"):
        embedder.evaluate(data, verbose=0)
    predictor = NextSentencePredictor(encoder(), tokenizer())
    data = tf.data.Dataset.from_tensor_slices(((TEXTS, TEXTS), [2] * 64)).batch(8)
    with pytest.raises(InputError, match="class numbers from 0 to 1. Received: 2"):
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
    line = r"write data.map\(lambda row: \(row\['text'\], row\['label'\]\)\)"
    with pytest.raises(InputError, match=line):
        classifier().fit(rows, verbose=0)
    with pytest.raises(InputError, match=r"data.map\(lambda row: row\['text'\]\)"):
        classifier().predict(rows, verbose=0)
    four = tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS, NUMBERS, NUMBERS)).batch(8)
    with pytest.raises(InputError, match="Received: 4 parts"):
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
        for one, other in zip(models[seed].get_weights(), alone[seed], strict=True):
            np.testing.assert_array_equal(one, other)


# === Single batches, and calling the model ===


def test_is_called_on_symbolic_ids_alone():
    model = classifier()
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    whole = keras.Model(ids, model({"token_ids": ids}))
    given = np.asarray(model.tokenizer(TEXTS[:3])["token_ids"])
    np.testing.assert_allclose(whole(given), model({"token_ids": given}), atol=1e-6)


def test_trains_and_predicts_on_one_batch():
    model = classifier(dropout=0.0)
    with pytest.raises(InputError, match="call compile\\(optimizer"):
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
    for given in (TEXTS[:1], tf.constant(TEXTS[:1]), ids):
        np.testing.assert_allclose(model(given), single, atol=1e-6)
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
    for given in (lists, floats, features | {"padding_mask": features["padding_mask"] == 1}):
        np.testing.assert_array_equal(model.predict(given, verbose=0), expected)
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


# === .keras files and copies ===


def reloaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.models.load_model(tmp_path / "model.keras")


def by_pickle(model, _):
    return pickle.loads(pickle.dumps(model))


def by_deepcopy(model, _):
    return copy.deepcopy(model)


@pytest.mark.parametrize("copied", [reloaded, pytest.param(by_pickle, marks=pytest.mark.slow)])
def test_loaded_copy_resumes_training_exactly(copied, tmp_path):
    model = classifier()
    model.compile(
        AdamW(1e-2, global_clipnorm=1.0),
        loss=losses.CategoricalCrossentropy(label_smoothing=0.1),
        metrics=["accuracy", metrics.AUC()],
        accumulation_steps=2,
        seed=3,
    )
    model.fit(TEXTS, LABELS, epochs=2, verbose=0)
    other = copied(model, tmp_path)
    assert other.compiled and int(other.optimizer.iterations) == 4
    assert other.evaluate(TEXTS, LABELS, verbose=0) == model.evaluate(TEXTS, LABELS, verbose=0)
    for one in (model, other):
        one.fit(TEXTS, LABELS, epochs=3, initial_epoch=2, verbose=0)
    np.testing.assert_array_equal(weights(model), weights(other))


def test_loaded_copy_resumes_with_the_default_optimizer(tmp_path):
    model = classifier()
    model.fit(TEXTS, LABELS, verbose=0)
    other = reloaded(model, tmp_path)
    for one in (model, other):
        one.fit(TEXTS, LABELS, epochs=2, verbose=0)
    np.testing.assert_array_equal(weights(model), weights(other))
    tagged = tagger()
    tagged.compile(metrics=["entity_f1"])
    assert reloaded(tagged, tmp_path).metrics_names == tagged.metrics_names


def frozen_encoder(model):
    model.encoder.trainable = False


def frozen_block(model):
    model.encoder.blocks[0].trainable = False


def frozen_model(model):
    model.trainable = False


def frozen_weight(model):
    model.encoder.embeddings.weights[0].trainable = False


@pytest.mark.parametrize(
    "freeze, copied",
    [
        (frozen_encoder, reloaded),
        (frozen_block, reloaded),
        (frozen_model, reloaded),
        (frozen_weight, reloaded),
        (frozen_block, by_pickle),
        (frozen_block, by_deepcopy),
    ],
)
def test_loaded_copy_keeps_frozen_layers(freeze, copied, tmp_path):
    model = classifier()
    freeze(model)
    other = copied(model, tmp_path)
    learned = [[w.path for w in one.trainable_weights] for one in (model, other)]
    assert learned[0] == learned[1] and len(learned[0]) < len(model.weights)
    clone = keras.models.clone_model(model)
    assert [w.path for w in clone.trainable_weights] == learned[0]
    inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in model.input}
    outer = keras.Model(inputs, other(inputs))
    assert len(outer.trainable_weights) == len(learned[0])


def test_clone_of_a_compiled_model_names_the_way_to_copy_it():
    model = classifier()
    assert keras.models.clone_model(model).count_params() == model.count_params()
    model.compile(learning_rate=1e-3)
    with pytest.raises(InputError, match=r"copy.deepcopy\(model\)"):
        keras.models.clone_model(model)


def test_frozen_encoder_stays_frozen_inside_another_model(tmp_path):
    whole = encoder()
    made = type(whole)(whole.config, trainable=False)
    inputs = {"token_ids": keras.Input((None,), dtype="int32")}
    outer = keras.Model(inputs, keras.layers.Dense(2)(made(inputs)["pooled_output"]))
    assert len(outer.trainable_weights) == 2
    again = reloaded(outer, tmp_path)
    assert len(again.trainable_weights) == 2


def test_rejects_training_after_losing_the_objective(tmp_path):
    model = classifier()
    model.compile(AdamW(1e-3), objective=RDrop(model, 1.0))
    model.fit(TEXTS, LABELS, verbose=0)
    other = reloaded(model, tmp_path)
    with pytest.raises(InputError, match=r"call compile\(objective=RDrop\(...\)\) again"):
        other.fit(TEXTS, LABELS, verbose=0)
    other.compile(AdamW(1e-3), objective=RDrop(other, 1.0))
    other.fit(TEXTS, LABELS, verbose=0)


def test_a_lambda_is_a_loss_and_leaves_no_name_scope_open():
    model = classifier()
    model.compile("adam", lambda y, p: keras.ops.mean(p, -1), [lambda y, p: p[:, 0]])
    history = model.fit(TEXTS, LABELS, verbose=0).history
    assert set(history) == {"loss", "lambda"}
    assert keras.layers.Dense(2)(np.ones((1, 2))).shape == (1, 2)
    assert classifier().weights[0].path.startswith("embeddings/")


def test_layers_frozen_after_training_need_compile():
    model = classifier()
    model.compile("adam")
    model.encoder.trainable = False  # before training: followed
    model.fit(TEXTS, LABELS, verbose=0)
    model.encoder.trainable = True
    with pytest.raises(InputError, match="frozen or unfrozen after training: call compile"):
        model.fit(TEXTS, LABELS, verbose=0)
    before = model.encoder.get_weights()[0]
    model.compile("adam")
    model.fit(TEXTS, LABELS, verbose=0)
    assert not np.array_equal(model.encoder.get_weights()[0], before)
    copy.deepcopy(model).fit(TEXTS, LABELS, verbose=0)


# === Subclasses ===


class SevenTimes(type(classifier())):
    def compute_loss(self, *arguments, **keywords):
        return 7.0 * super().compute_loss(*arguments, **keywords)


class MoreInTraining(type(classifier())):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, y, y_pred, sample_weight) + (100.0 if training else 0.0)


class MoreLogs(type(classifier())):
    def compute_metrics(self, *arguments, **keywords):
        return super().compute_metrics(*arguments, **keywords) | {"extra": 1.0}


class OfTheGuide(type(classifier())):
    """The step of Keras's guide to custom training."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred, x=x)
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}


def of_class(kind):
    return kind(encoder(dropout=0.0), tokenizer(), labels=["negative", "positive"])


def test_the_compute_loss_of_a_subclass_is_trained_and_evaluated():
    plain, own = of_class(type(classifier())), of_class(SevenTimes)
    found = []
    for model in (plain, own):
        model.compile(keras.optimizers.SGD(0.0), metrics=[])
        history = model.fit(TEXTS, LABELS, verbose=0).history
        found.append((history["loss"][0], model.evaluate(TEXTS, LABELS, verbose=0)))
    np.testing.assert_allclose(found[1], np.multiply(found[0], 7), rtol=1e-5)  # float32 sums
    own.compile(keras.optimizers.SGD(1e-3), metrics=[])
    plain.compile(keras.optimizers.SGD(7e-3), metrics=[])
    for model in (plain, own):
        model.fit(TEXTS[:8], LABELS[:8], verbose=0, shuffle=False)
    np.testing.assert_allclose(weights(own), weights(plain), atol=1e-6)


def test_compute_loss_knows_whether_it_trains():
    model = of_class(MoreInTraining)
    model.compile(keras.optimizers.SGD(0.0), metrics=[])
    trained = model.fit(TEXTS, LABELS, verbose=0).history["loss"][0]
    np.testing.assert_allclose(trained, model.evaluate(TEXTS, LABELS, verbose=0) + 100, rtol=1e-6)


def test_what_a_subclass_cannot_change_is_refused():
    with pytest.raises(InputError, match="SevenTimes overrides compute_loss, which needs the who"):
        of_class(SevenTimes).compile(accumulation_steps=2)
    with pytest.raises(InputError, match="MoreLogs returns 'extra' from train_step, test_step or"):
        of_class(MoreLogs).fit(TEXTS, LABELS, verbose=0)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a step of TensorFlow")
def test_the_step_of_the_guide():
    plain, own = of_class(type(classifier())), of_class(OfTheGuide)
    found = []
    for model in (plain, own):
        model.compile(keras.optimizers.SGD(1e-2), metrics=["accuracy"])
        found.append(model.fit(TEXTS, LABELS, verbose=0, shuffle=False).history)
    assert found[0].keys() == found[1].keys() == {"loss", "accuracy"}
    np.testing.assert_allclose(found[1]["loss"], found[0]["loss"], rtol=1e-5)  # float32 sums
    np.testing.assert_allclose(weights(own), weights(plain), atol=1e-6)
