"""Task models behave like Keras models: `compile` and `fit`."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import losses, metrics

from keras_bert_impl.tasks import (
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextEmbedder,
    TokenClassifier,
)
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
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
    scores = model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)
    assert scores["accuracy"] == np.mean(np.array(model.classify(TEXTS)) == LABELS)


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
    scores = model.evaluate(words, labels, verbose=0, return_dict=True)
    model.compile(metrics=["accuracy"])
    assert scores["accuracy"] == model.evaluate(words, labels, verbose=0)[1]
    guessed = np.concatenate(model.tag(words)) == "B-X"
    is_entity = np.concatenate(labels) == "B-X"
    assert scores["precision"] == pytest.approx(np.mean(is_entity[guessed]), abs=1e-6)


def test_crf_metrics_use_marginal_probabilities():
    words, labels = words_and_labels()
    model = tagger(crf=True)
    model.crf_layer.transitions.assign([[0.0, 3.0], [-2.0, 1.0]])
    model.compile(metrics=[metrics.Precision(thresholds=0.6)])
    precision = model.evaluate(words, labels, verbose=0)[1]
    guessed = np.concatenate([row[:, 1] for row in model.predict(words, verbose=0)]) > 0.6
    is_entity = np.concatenate(labels) == "B-X"
    assert precision == pytest.approx(np.mean(is_entity[guessed]), abs=1e-6)
    with pytest.raises(InputError, match="loss must be None"):
        model.compile(loss="sparse_categorical_crossentropy")


def test_soft_labels_need_a_loss_that_takes_them():
    soft = np.array([[0.3, 0.7] if n else [1.0, 0.0] for n in NUMBERS])
    model = classifier(dropout=0.0)
    with pytest.raises(InputError, match="Write compile\\(loss='categorical_crossentropy'\\)"):
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
    enabled = []
    for name in ("fit", "evaluate", "predict"):
        original = getattr(keras.Model, name)

        def spy(self, x, *args, _original=original, **kwargs):
            enabled.append(x.options().autotune.enabled)
            return _original(self, x, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keras.Model, name, spy)
            ids = {"token_ids": np.full((4, 5), 6, "int32")}
            data = tf.data.Dataset.from_tensor_slices((TEXTS, NUMBERS)).batch(8)
            for x, y in ((TEXTS, NUMBERS), (ids, [0, 1, 0, 1]), (data, None)):
                arguments = (x,) if name == "predict" or y is None else (x, y)
                getattr(model, name)(*arguments, verbose=0)
    assert enabled and not any(enabled)


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


@pytest.mark.parametrize(
    "labels, problem",
    [([1] * 12 + [0] * 4, "are all of one class"), ([1] * 12 + [1, 0, 0, 0], "without training")],
)
def test_a_validation_split_of_sorted_labels_warns(labels, problem):
    model = classifier()
    with pytest.warns(UserWarning, match=f"the last 4 texts, which .*{problem}"):
        model.fit(TEXTS[:16], labels, validation_split=0.25, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit(TEXTS[:16], [0, 1] * 8, validation_split=0.25, verbose=0)


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
    with pytest.raises(InputError, match=f"Leave out '{next(iter(beside))}'"):
        classifier().fit(data, verbose=0, **beside)
    if "validation_split" not in beside:
        with pytest.raises(InputError, match="Leave out"):
            classifier().evaluate(data, verbose=0, **beside)
