"""Distillation and R-Drop: losses against manual computation, replicas, micro-batches."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from keras_bert_impl.layers import dropout_seed
from keras_bert_impl.tasks import (
    FinetuneSettings,
    IntermediateLayers,
    MultipleChoice,
    RDrop,
    SoftTargets,
    TextClassifier,
    TokenClassifier,
)
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored, to_numpy
from tests.tasks.helpers import encoder, examples, tokenizer, weights

TEXTS, NAMES = examples(count=18)
X = {name: to_numpy(value) for name, value in tokenizer()(TEXTS).items()}
CLASSES = np.array([name == "positive" for name in NAMES], "int32")
LABELS = ["negative", "positive"]
RATE = 0.1
KINDS = {
    "single_label_classification": CLASSES,
    "multi_label_classification": np.stack([CLASSES, 1 - CLASSES], 1).astype("float32"),
    "regression": np.stack([CLASSES, 3 - CLASSES], 1).astype("float32"),
}


def student(strategy=None, dropout=0.0, labels=LABELS, problem_type=None, **sizes):
    with (strategy or mirrored(1)).scope():
        parts = encoder(dropout=dropout, **sizes)
        return TextClassifier(parts, tokenizer(), labels=labels, problem_type=problem_type)


def teacher(strategy=None, **arguments):
    """A deeper and wider model with dropout, which a teacher must not apply."""
    sizes = {"num_layers": 4, "hidden_dim": 24, "dropout": 0.5, "seed": 1}
    return student(strategy, **sizes | arguments)


def words(model_class=TokenClassifier, **arguments):
    parts = encoder(use_pooler=False, dropout=0.0)
    return model_class(parts, tokenizer(), labels=["O", "B", "I"], **arguments)


def share_of_all(model, objective, x, y, sample_weight=None):
    """Returns the loss of an objective on a batch, and the model's predictions."""
    model.compile(keras.optimizers.SGD(RATE), objective=objective)
    outputs = model(x, training=True)
    totals = objective.loss_totals(x, y, sample_weight)
    return float(objective.loss_share(x, y, outputs, sample_weight, totals)), to_numpy(outputs)


def log_softmax(logits, temperature=1.0):
    return scipy.special.log_softmax(logits.astype("float64") / temperature, axis=-1)


def divergence(kind, targets, outputs, temperature):
    if kind == "regression":
        return ((targets - outputs) ** 2).mean(-1)
    if kind == "multi_label_classification":
        targets, outputs = (np.stack([x, 0 * x], -1) for x in (targets, outputs))
    targets, outputs = log_softmax(targets, temperature), log_softmax(outputs, temperature)
    values = temperature**2 * (np.exp(targets) * (targets - outputs)).sum(-1)
    return values.mean(-1) if values.ndim == 2 else values


def loss_of_labels(kind, y, outputs):
    if kind == "regression":
        return ((y - outputs) ** 2).mean(-1)
    if kind == "multi_label_classification":
        return (np.logaddexp(0, outputs) - y * outputs).mean(-1)
    return -np.take_along_axis(log_softmax(outputs), y[:, None], axis=-1)[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_soft_targets_match_a_manual_computation(kind):
    small, large = student(problem_type=kind), teacher(problem_type=kind)
    counts = np.linspace(0.5, 2, len(TEXTS)).astype("float32")
    objective = SoftTargets(small, large, temperature=2.0, teacher_weight=0.3)
    received, outputs = share_of_all(small, objective, X, KINDS[kind], counts)
    soft = divergence(kind, to_numpy(large(X, training=False)), outputs, 2.0)
    losses = 0.3 * soft + 0.7 * loss_of_labels(kind, KINDS[kind], outputs)
    # Means of 18 float32 numbers of up to 10.
    assert received == pytest.approx((counts * losses).mean(), rel=1e-5)


def test_soft_targets_of_taggers_use_only_labeled_tokens():
    small, large = words(), words()
    large.set_weights([weight + 0.1 for weight in large.get_weights()])
    y = np.where(X["padding_mask"] == 1, X["token_ids"] % 3, -1)
    received, outputs = share_of_all(small, SoftTargets(small, large), X, y)
    soft = divergence("single", to_numpy(large(X)).reshape(-1, 3), outputs.reshape(-1, 3), 2.0)
    hard = -np.take_along_axis(log_softmax(outputs), np.maximum(y, 0)[..., None], -1).ravel()
    assert received == pytest.approx((soft + hard)[y.ravel() >= 0].mean() / 2, rel=1e-5)


def test_intermediate_layers_match_a_manual_computation():
    small, large = student(num_layers=2), teacher()
    objective = IntermediateLayers(small, large)
    received, _ = share_of_all(small, objective, X, CLASSES)
    names = "hidden_states", "attention_logits"
    (states, attention), (their_states, their_attention) = (
        [to_numpy(outputs[name]) for name in names]
        for outputs in (model.encoder.with_outputs(*names)(X) for model in (small, large))
    )
    embedding_maps, state_maps = map(to_numpy, objective.variables)
    expected = []
    for row, n in enumerate(X["padding_mask"].sum(1)):
        maps = embedding_maps, state_maps, state_maps
        expected += [
            ((states[m][row, :n] @ maps[m] - their_states[2 * m][row, :n]) ** 2).mean()
            for m in range(3)
        ]
        pairs = zip(attention, their_attention[1::2])
        expected += [((a - b)[row, :, :n, :n] ** 2).mean() for a, b in pairs]
    assert received == pytest.approx(sum(expected) / len(TEXTS), rel=1e-5)


def test_identical_models_need_no_maps_and_differ_only_by_dropout():
    for dropout in (0.0, 0.5):
        first, second = student(dropout=dropout), student(dropout=dropout)
        objective = IntermediateLayers(first, second)
        received, _ = share_of_all(first, objective, X, CLASSES)
        assert objective.variables == [] and (received > 0.1) == (dropout > 0)


@pytest.mark.slow
def test_r_drop_matches_a_manual_computation():
    # One step; each half of the batch has the dropout of its micro-batch.
    model = student(dropout=0.5)
    x, y = {name: value[:8] for name, value in X.items()}, CLASSES[:8]
    model.compile(
        keras.optimizers.SGD(RATE),
        accumulation_steps=2,
        seed=3,
        objective=RDrop(model, alpha=0.7),
        metrics=[],
    )
    step = tf.random.experimental.stateless_fold_in(tf.constant([3, 0]), 0)  # replica 0

    @tf.function(autograph=False)
    def by_hand():
        loss = 0.0
        with tf.GradientTape() as tape:
            for half in range(2):
                rows = {name: value[4 * half : 4 * half + 4] for name, value in x.items()}
                with dropout_seed(tf.random.experimental.stateless_fold_in(step, half)):
                    logs = [tf.nn.log_softmax(model(rows, training=True)) for _ in range(2)]
                first, second = logs
                # KL divergence in both directions, halved: (p - q)(log p - log q) / 2.
                between = (tf.exp(first) - tf.exp(second)) * (first - second) / 2
                right = tf.one_hot(y[4 * half : 4 * half + 4], 2)
                loss += tf.reduce_sum(0.7 * between - right * (first + second)) / 8
        return loss, tape.gradient(loss, model.trainable_variables)

    loss, gradients = by_hand()
    before = [to_numpy(variable.value) for variable in model.trainable_variables]
    history = model.fit(x, y, batch_size=8, shuffle=False, verbose=0).history
    assert history["loss"][0] == pytest.approx(float(loss), rel=1e-5)
    for variable, old, gradient in zip(model.trainable_variables, before, gradients, strict=True):
        expected = old - RATE * tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(to_numpy(variable.value), expected, rtol=1e-5, atol=1e-5)
    # The two passes must differ, or the loss would be small.
    model.compile(keras.optimizers.SGD(RATE), seed=3, objective=RDrop(model, alpha=1e4), metrics=[])
    assert model.fit(x, y, batch_size=8, verbose=0).history["loss"][0] > 10


def fitted(objective_of, replicas=1, **arguments):
    strategy = mirrored(replicas)
    model = student(strategy, num_layers=2)
    objective = objective_of(model, teacher(strategy))
    with strategy.scope():
        keras.utils.set_random_seed(5)
        for variable in objective.variables:
            variable.assign(keras.random.normal(variable.shape, stddev=0.2))
        model.compile(keras.optimizers.SGD(RATE), objective=objective, metrics=[], **arguments)
    # The last batch has two texts, so each replica gets one, and some micro-batches are empty.
    data = tf.data.Dataset.from_tensor_slices((X, CLASSES)).batch(8)
    losses = model.fit(data, epochs=1, verbose=0).history["loss"]
    return [to_numpy(variable.value) for variable in model.trainable_variables], losses


@pytest.mark.slow
@pytest.mark.parametrize("objective_of", [SoftTargets, IntermediateLayers])
def test_replicas_and_micro_batches_do_not_change_the_weights(objective_of):
    expected, losses = fitted(objective_of)
    received, received_losses = fitted(objective_of, replicas=2, accumulation_steps=2)
    # Float32 numbers of magnitude 1, summed in another order in three steps.
    for weight, expected_weight in zip(received, expected, strict=True):
        np.testing.assert_allclose(weight, expected_weight, rtol=1e-5, atol=5e-6)
    np.testing.assert_allclose(received_losses, losses, rtol=1e-5)


@pytest.mark.slow
def test_maps_are_trained_and_removed_and_the_teacher_is_frozen():
    small, large = student(), teacher()
    before, num_variables = weights(large), len(small.variables)
    objective = IntermediateLayers(small, large)
    small.compile(keras.optimizers.Adam(0.03), objective=objective, metrics=[])
    maps = [to_numpy(variable.value) for variable in objective.variables]
    losses = small.fit(X, CLASSES, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    for variable, old in zip(objective.variables, maps, strict=True):
        assert np.abs(to_numpy(variable.value) - old).max() > 1e-3
    assert len(small.variables) == num_variables + 2  # no variables of the teacher
    np.testing.assert_array_equal(weights(large), before)
    small.compile(keras.optimizers.SGD(RATE))
    assert len(small.variables) == num_variables


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: RDrop(MultipleChoice(encoder(), tokenizer()), 1.0), "R-Drop supports only"),
        (
            lambda: SoftTargets(words(), words(crf=True)),
            "TokenClassifier without a CRF",
        ),
        (
            lambda: SoftTargets(student(), words()),
            "Received: a TokenClassifier and a TextClassifier",
        ),
        (
            lambda: SoftTargets(student(), student(labels=["a", "b"])),
            "Received: 'a', 'b' for the teacher, 'negative', 'positive' for the student",
        ),
        (
            lambda: SoftTargets(student(), teacher(problem_type="multi_label_classification")),
            "Received: multi_label_classification and single",
        ),
        (lambda: SoftTargets(student(max_length=64), teacher()), "supports 32 tokens, fewer than"),
        (
            lambda: IntermediateLayers(student(num_layers=3), teacher()),
            "must be a multiple of the student's, 3",
        ),
        (lambda: IntermediateLayers(student(num_heads=4), teacher()), "has 4, the teacher 2"),
    ],
)
def test_rejects_incompatible_models(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_rejects_a_teacher_with_another_tokenizer():
    vocabulary = list(tokenizer().vocabulary)
    vocabulary[-1] = "other"
    mismatched = TextClassifier(encoder(), WordPieceTokenizer(vocabulary), labels=LABELS)
    with pytest.raises(InputError, match="different tokenizers"):
        SoftTargets(student(), mismatched)


def test_rejects_windows_of_only_one_model():
    windows = TextClassifier(encoder(), tokenizer(), labels=LABELS, long_texts="mean")
    with pytest.raises(InputError, match="must both split long texts into windows"):
        SoftTargets(student(), windows)
    with pytest.raises(InputError, match="does not support windows"):
        IntermediateLayers(windows, windows)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"temperature": 2.0}, "temperature requires a teacher"),
        ({"teacher": "t", "distillation": "hard"}, "must be one of soft, tinybert"),
        ({"teacher": "t", "intermediate_epochs": 2}, "requires distillation=tinybert"),
        ({"teacher": "t", "r_drop": 1.0}, "cannot be combined"),
        ({"teacher": "t", "teacher_weight": 1.5}, r"in \[0, 1\]"),
        ({"teacher": "t", "distillation": "tinybert", "tuning": "lora"}, "requires tuning=full"),
        ({"r_drop": 0.0}, "r_drop must be a positive number"),
    ],
)
def test_rejects_incompatible_settings(settings, message):
    with pytest.raises(InputError, match=message):
        FinetuneSettings(**settings)


def test_defaults_depend_on_the_kind_of_distillation():
    soft, tinybert = (FinetuneSettings(teacher="t", distillation=d) for d in (None, "tinybert"))
    assert (soft.distillation, soft.temperature, soft.teacher_weight) == ("soft", 2.0, 0.5)
    assert (tinybert.temperature, tinybert.teacher_weight) == (1.0, 1.0)
    assert tinybert.intermediate_epochs == 10 and soft.intermediate_epochs is None
