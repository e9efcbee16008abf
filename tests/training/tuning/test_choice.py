"""Which weights learn, and at which rate, during training."""

import contextlib
import math

import keras
import numpy as np
import pytest

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.layers import is_added
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks import TaggedExamples, TokenClassifier, finetune
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.tuning import (
    GradualUnfreezing,
    ParameterReport,
    TuningSettings,
    choose_weights,
    count_parameters,
    freeze,
    learning_rates,
    reinitialize,
    train_biases,
)
from keras_bert_impl.training.tuning.settings import CRF_RATE
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers

TEXTS, LABELS = helpers.examples(8)
RATE = 0.25


def classifier(**settings):
    encoder = helpers.encoder(dropout=0.0, **{"num_layers": 2} | settings)
    return helpers.TextClassifier(encoder, helpers.tokenizer(), labels=["negative", "positive"])


@pytest.fixture(scope="module")
def model():
    return classifier()


def steps_of(model, **settings):
    """How far Adam's first step moves each weight, by path; its learning rate, if it learns."""
    before = {w.path: w.numpy() for w in model.weights}
    optimizer = AdamW(RATE, weight_decay=0.0, epsilon=1e-30, **settings)
    model.compile(optimizer, metrics=[])
    model.fit(TEXTS, LABELS, batch_size=8, verbose=0)
    moved = {w.path: np.abs(w.numpy() - before[w.path]) for w in model.weights}
    for weight in model.weights:
        weight.assign(before[weight.path])
    return moved


def trainable(model):
    return {path.partition("/")[0] for path in (w.path for w in model.trainable_weights)}


def test_rates_decay_downward_except_for_the_head(model):
    moved = steps_of(model, rates=learning_rates(model, layer_decay=0.5, head_factor=4.0))
    factors = {
        "embeddings": 0.5**3,
        "layer_0": 0.5**2,
        "layer_1": 0.5,
        "pooler": 4.0,
        "classifier": 4.0,
    }
    assert {path.partition("/")[0] for path in moved} == set(factors)
    for path, steps in moved.items():
        factor = factors[path.partition("/")[0]]
        # |m / sqrt(v)| of the first step is 1 to a few units in the last place, and weights of up
        # to 4 are rounded. The gradient is 0 for words that occur in no text.
        learned = steps[steps > RATE * factor / 2]
        np.testing.assert_allclose(learned, RATE * factor, atol=4e-6, err_msg=path)
        assert steps[steps <= RATE * factor / 2].max(initial=0) <= 2e-7, path
        # Adding the same number to all scores does not change a softmax.
        assert len(learned) or path.endswith("key/bias")


def test_blocks_that_share_weights_count_as_one_layer():
    model = classifier(num_layer_groups=1)
    assert dict(learning_rates(model, 0.5)) == {
        "^embeddings/": 0.25,
        "^layer_0/": 0.5,
        "^crf/": 1.0,
        "": 1.0,
    }
    with pytest.raises(InputError, match="frozen_layers must be at most 1, the number of layers"):
        choose_weights(model, TuningSettings(frozen_layers=2))


def test_crf_has_its_own_rate():
    labels = ["O", "B-X"]
    model = TokenClassifier(helpers.encoder(), helpers.tokenizer(), labels=labels, crf=True)
    optimizer = AdamW(1.0, rates=learning_rates(model, 0.5, 3.0, 100.0))
    optimizer.build(model.trainable_variables)
    factors = dict(zip((v.path for v in model.trainable_variables), optimizer._factors))
    assert factors["token_classifier/dense/kernel"] == 3.0
    transitions = [factor for path, factor in factors.items() if path.startswith("crf/")]
    assert transitions == [100.0] * 3


@pytest.mark.parametrize("crf_rate", [None, pytest.param(1e-4, marks=pytest.mark.slow)])
def test_crf_scores_move_at_the_crf_rate(base, tmp_path, crf_rate):
    """In `finetune`, and in `fit` without a setting."""
    words = [text.split() for text in TEXTS]
    train = TaggedExamples(words, [["B-X"] * len(text) for text in words], ["O", "B-X"])
    if crf_rate is None:
        model = TokenClassifier.from_pretrained(base, labels=train.label_names, crf=True)
        model.fit(train.texts, train.labels, batch_size=8, verbose=0)
    else:
        settings = {"epochs": 1, "batch_size": 8, "crf": True, "crf_rate": crf_rate}
        model = finetune(base, train, train, tmp_path / "run", verbose=0, **settings)
    moved = np.abs(model.crf_layer.transitions.numpy())
    # The first step of Adam equals the learning rate, and there is only one.
    np.testing.assert_allclose(moved, crf_rate or CRF_RATE, rtol=1e-3)


def test_only_biases_are_trained():
    model = classifier()
    train_biases(model.encoder)
    moved = steps_of(model)
    changed = {path for path, steps in moved.items() if steps.max() > 0}
    biases = {path for path in moved if path.endswith(("bias", "beta"))}
    # Adding the same number to all scores does not change a softmax, except by rounding.
    keys = {path for path in biases if path.endswith("key/bias")}
    assert changed | keys == biases | {"classifier/dense/kernel"}
    assert len(model.optimizer._momentums) == len(model.trainable_variables)
    hidden, inner, blocks = 16, 32, 2
    biases = hidden + blocks * (4 * hidden + inner + hidden + 2 * hidden) + hidden
    total, learned = count_parameters(model)
    assert learned == biases + 2 * hidden + 2
    assert total == model.config.num_parameters() + 2 * hidden + 2


def test_rejects_an_encoder_without_biases():
    with pytest.raises(InputError, match="has no biases to train"):
        train_biases(helpers.encoder(use_bias=False, use_pooler=False))


def test_frozen_layers(model, capsys):
    names = ["embeddings", "layer_0", "layer_1", "pooler", "classifier"]
    for count in (2, 1, 0):
        freeze(model.encoder, count)
        assert trainable(model) == set(names[count + 1 :])
    freeze(model.encoder, 2)
    report = ParameterReport()
    report.set_model(model)
    report.on_train_begin()
    learned = 16 * 16 + 16 + 2 * 16 + 2
    total = model.config.num_parameters() + 2 * 16 + 2
    share = f"{learned / total:.2%}"
    assert (
        f"{total:,} parameters, of which {learned:,} ({share}) are trainable"
        in capsys.readouterr().err
    )
    freeze(model.encoder, -1)
    assert len(model.trainable_weights) == len(model.weights)


def test_reinitializes_the_last_layers():
    model = classifier(num_layers=4)
    before = {w.path: w.numpy() + 1.0 for w in model.weights}
    for weight in model.weights:
        weight.assign(before[weight.path])
    reinitialize(model.encoder, 2)
    kernels = []
    for weight in model.weights:
        path, value = weight.path, weight.numpy()
        if path.startswith(("layer_2", "layer_3", "pooler")):
            kind = path.rpartition("/")[2]
            if kind == "kernel":
                kernels.append(value.ravel())
            else:
                np.testing.assert_array_equal(value, 1.0 if kind == "gamma" else 0.0)
        else:
            np.testing.assert_array_equal(value, before[path])
    drawn = np.concatenate(kernels)
    # Weights are drawn independently. A normal distribution truncated at two standard deviations
    # keeps 0.8796 of its deviation, which n numbers estimate to 1 / sqrt(2 n).
    assert len(np.unique(drawn)) > 0.99 * len(drawn)
    assert abs(drawn.std() / (0.8796 * 0.2) - 1) < 5 / math.sqrt(2 * len(drawn))
    assert abs(drawn.mean()) < 5 * 0.2 / math.sqrt(len(drawn))


@pytest.mark.parametrize(
    "frozen, lowest",
    [pytest.param(None, "embeddings", marks=pytest.mark.slow), (0, "layer_0")],
)
def test_unfreezes_one_more_layer_each_epoch(frozen, lowest):
    model = classifier()
    model.compile(AdamW(1e-2), metrics=[])
    learned = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.before = {w.path: w.numpy() for w in self.model.weights}

        def on_epoch_end(self, epoch, logs=None):
            moved = [w.path for w in self.model.weights if (w.numpy() != self.before[w.path]).any()]
            learned.append({path.partition("/")[0] for path in moved})

    # Starts at initial_epoch=1: a resumed run trains the same layers as an uninterrupted one.
    model.fit(
        TEXTS,
        LABELS,
        epochs=4,
        initial_epoch=1,
        callbacks=[GradualUnfreezing(frozen), Watch()],
        verbose=0,
    )
    names = ["classifier", "pooler", "layer_1", "layer_0", "embeddings"]
    last = names[: names.index(lowest) + 1]
    assert learned == [set(names[:3]), set(names[:4]), set(last)]
    assert len(model.optimizer._momentums) == len(model.weights)


class Failure(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise KeyboardInterrupt


@pytest.mark.parametrize("fails", [pytest.param(False, marks=pytest.mark.slow), True])
def test_unfreezing_restores_trainable_weights(fails):
    model = classifier()
    model.encoder.blocks[1].attention.trainable = False
    before = [weight.path for weight in model.trainable_weights]
    frozen = {w.path: w.numpy() for w in model.non_trainable_weights}
    assert len(frozen) == 8
    model.compile(AdamW(1e-2, use_ema=True), metrics=[])
    how = {"verbose": 0, "callbacks": [GradualUnfreezing(), *([Failure()] if fails else [])]}
    with pytest.raises(KeyboardInterrupt) if fails else contextlib.nullcontext():
        model.fit(TEXTS, LABELS, epochs=3, **how)
    assert [weight.path for weight in model.trainable_weights] == before
    for weight in model.non_trainable_weights:
        np.testing.assert_array_equal(weight.numpy(), frozen[weight.path])
    start = {w.path: w.numpy() for w in model.trainable_weights}
    model.fit(TEXTS, LABELS, verbose=0)  # without the callback, all weights learn
    still = [w.path for w in model.trainable_weights if (w.numpy() == start[w.path]).all()]
    assert still == []


def test_unfreezing_trains_only_adapters():
    model = classifier(adapter=Adapter("lora", size=2))
    before = {w.path: w.numpy() for w in model.non_trainable_weights}
    assert before
    model.compile(AdamW(1e-2), metrics=[])
    model.fit(TEXTS, LABELS, epochs=4, initial_epoch=2, callbacks=[GradualUnfreezing()], verbose=0)
    for weight in model.weights:
        if weight.path in before:
            np.testing.assert_array_equal(weight.numpy(), before[weight.path])


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"tuning": "qlora"}, "tuning must be one of full, head, bias, lora"),
        ({"tuning": "lora", "frozen_layers": 1}, "frozen_layers cannot be combined"),
        ({"tuning": "bias", "adapter_size": 4}, "adapter_size cannot be combined"),
        ({"tuning": "prefix", "lora_alpha": 4.0}, "lora_alpha cannot be combined"),
        (
            {"tuning": "lora", "lora_projections": ("pooler",)},
            "projections must be a list of values, each one of",
        ),
        ({"layer_decay": 0.0}, r"layer_decay must be a number in \(0, 1\]"),
        ({"head_rate": -1.0}, "head_rate must be a positive number"),
        ({"crf_rate": 0.0, "crf": True}, "crf_rate must be a positive number"),
        ({"crf_rate": 1e-2}, "crf_rate requires crf=true"),
        ({"frozen_layers": -1}, "frozen_layers must be an integer, at least 0"),
    ],
)
def test_rejects_settings_that_conflict(settings, message):
    with pytest.raises(InputError, match=message):
        FinetuneSettings(**settings)


def test_settings_have_a_default_rate_and_size_for_each_method():
    assert FinetuneSettings().learning_rate == 3e-5
    settings = FinetuneSettings(tuning="lora", lora_projections=("value", "key"))
    assert settings.learning_rate == 1e-3
    assert (settings.adapter.size, settings.adapter.projections) == (4, ("key", "value"))
    assert FinetuneSettings(tuning="prompt", adapter_size=3).adapter.num_virtual_tokens == 3
    assert FinetuneSettings(tuning="bias").adapter is None
    encoder = helpers.encoder(adapter=settings.adapter)
    model = helpers.TextClassifier(encoder, helpers.tokenizer(), num_classes=2)
    assert (model.default_learning_rate, model.default_rates) == (1e-3, [])


@pytest.mark.slow
def test_prompts_start_as_vocabulary_words(tmp_path):
    helpers.save_base(tmp_path)

    def vectors(seed):
        keras.utils.set_random_seed(seed)
        adapter = Adapter("prompt", size=12)
        model = helpers.TextClassifier.from_pretrained(tmp_path, num_classes=2, adapter=adapter)
        return model, model.encoder.virtual_tokens.vectors.numpy()

    model, drawn = vectors(1)
    words = [n for n, piece in enumerate(model.tokenizer.vocabulary) if piece in helpers.WORDS]
    rows = np.repeat(np.array(words)[:, None], len(drawn), axis=1)
    embedded = np.asarray(model.encoder.embeddings(rows))
    for position, vector in enumerate(drawn):
        assert np.abs(embedded[:, position] - vector).max(axis=-1).min() < 1e-6
    np.testing.assert_array_equal(vectors(1)[1], drawn)
    assert np.abs(vectors(2)[1] - drawn).max() > 1e-2


def test_head_rate_is_lower_with_prefixes_and_prompts():
    assert FinetuneSettings(learning_rate=1e-4).head_factor == 1
    assert FinetuneSettings(tuning="lora", head_rate=5e-4).head_factor == 0.5
    for kind, factor in (("prefix", 1 / 5), ("prompt", 1 / 30)):
        settings = FinetuneSettings(tuning=kind)
        encoder = helpers.encoder(adapter=settings.adapter)
        model = TokenClassifier(encoder, helpers.tokenizer(), labels=["O", "B-X"], crf=True)
        rates = learning_rates(model, 1.0, settings.head_factor, 0.5)
        for rates, of_crf in ((rates, 0.5), (model.default_rates, 5e-3 / settings.learning_rate)):
            optimizer = AdamW(1.0, rates=rates)
            optimizer.build(model.trainable_variables)
            for variable, received in zip(model.trainable_variables, optimizer._factors):
                above = of_crf if variable.path.startswith("crf/") else factor
                expected = 1.0 if is_added(variable.path) else above
                assert received == pytest.approx(expected), variable.path
