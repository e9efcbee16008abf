"""Copies of task models: `.keras` files, pickles, frozen parts and subclasses."""

import copy
import pickle

import keras
import numpy as np
import pytest
from keras import losses, metrics

from keras_bert_impl import Adapter
from keras_bert_impl.runs.distillation import RDrop
from keras_bert_impl.tasks import TextClassifier, TokenClassifier
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier, encoder, examples, tokenizer, weights

TEXTS, LABELS = examples(count=64)


def tagger(**arguments):
    return TokenClassifier(encoder(dropout=0.0), tokenizer(), labels=["O", "B-X"], **arguments)


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
    loaded = copied(model, tmp_path)
    assert loaded.compiled and int(loaded.optimizer.iterations) == 4
    assert loaded.evaluate(TEXTS, LABELS, verbose=0) == model.evaluate(TEXTS, LABELS, verbose=0)
    for resumed in (model, loaded):
        resumed.fit(TEXTS, LABELS, epochs=3, initial_epoch=2, verbose=0)
    np.testing.assert_array_equal(weights(model), weights(loaded))


def classifier_with(adapter):
    return TextClassifier(encoder(adapter=adapter), tokenizer(), labels=["negative", "positive"])


class StopAfter(keras.callbacks.Callback):
    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch + 1 == self.epochs


def same_object(model, _):
    return model


def from_weights_file(model, tmp_path):
    model.save_weights(tmp_path / "model.weights.h5")
    loaded = classifier_with(model.config.adapter)
    loaded.compile()
    loaded.load_weights(tmp_path / "model.weights.h5")
    return loaded


@pytest.mark.parametrize("adapter", [None, Adapter("lora", size=2)])
@pytest.mark.parametrize("continued", [reloaded, same_object, from_weights_file])
def test_initial_epoch_continues_the_run_of_the_default_optimizer(continued, adapter, tmp_path):
    whole, parts = classifier_with(adapter), classifier_with(adapter)
    parts.set_weights(whole.get_weights())
    whole.fit(TEXTS, LABELS, epochs=4, verbose=0)
    parts.fit(TEXTS, LABELS, epochs=4, callbacks=[StopAfter(2)], verbose=0)
    resumed = continued(parts, tmp_path)
    resumed.fit(TEXTS, LABELS, epochs=4, initial_epoch=2, verbose=0)
    assert int(resumed.optimizer.iterations) == 8
    np.testing.assert_array_equal(weights(whole), weights(resumed))


def test_a_longer_run_extends_the_default_schedule(tmp_path):
    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)

    rates = []
    log = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: rates.append(float(model.optimizer.learning_rate))
    )
    model = classifier()
    model.fit(TEXTS, LABELS, epochs=2, callbacks=[backup()], verbose=0)
    model.fit(TEXTS, LABELS, epochs=4, initial_epoch=2, callbacks=[log], verbose=0)
    model = classifier()
    model.compile()
    model.fit(TEXTS, LABELS, epochs=4, callbacks=[backup(), log], verbose=0)
    # Steps 5 to 8 of 8, without warmup.
    assert rates == pytest.approx([3e-5 * steps / 8 for steps in (3, 2, 1, 0)] * 2, abs=1e-12)


def test_a_model_without_optimizer_state_warns_that_the_run_starts_again():
    with pytest.warns(UserWarning, match="initial_epoch=1, but the model has no optimizer state"):
        classifier().fit(TEXTS, LABELS, epochs=2, initial_epoch=1, verbose=0)


def test_loaded_copy_resumes_with_the_default_optimizer(tmp_path):
    model = classifier()
    model.fit(TEXTS, LABELS, verbose=0)
    loaded = reloaded(model, tmp_path)
    for resumed in (model, loaded):
        resumed.fit(TEXTS, LABELS, epochs=2, verbose=0)
    np.testing.assert_array_equal(weights(model), weights(loaded))
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
    loaded = copied(model, tmp_path)
    learned = [[w.path for w in network.trainable_weights] for network in (model, loaded)]
    assert learned[0] == learned[1] and len(learned[0]) < len(model.weights)
    clone = keras.models.clone_model(model)
    assert [w.path for w in clone.trainable_weights] == learned[0]
    inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in model.input}
    outer = keras.Model(inputs, loaded(inputs))
    assert len(outer.trainable_weights) == len(learned[0])


def test_clone_of_a_compiled_model_names_the_way_to_copy_it():
    model = classifier()
    assert keras.models.clone_model(model).count_params() == model.count_params()
    model.compile(learning_rate=1e-3)
    with pytest.raises(InputError, match=r"copy.deepcopy\(model\)"):
        keras.models.clone_model(model)


def test_frozen_encoder_stays_frozen_inside_another_model(tmp_path):
    whole = encoder()
    frozen = type(whole)(whole.config, trainable=False)
    inputs = {"token_ids": keras.Input((None,), dtype="int32")}
    outer = keras.Model(inputs, keras.layers.Dense(2)(frozen(inputs)["pooled_output"]))
    assert len(outer.trainable_weights) == 2
    again = reloaded(outer, tmp_path)
    assert len(again.trainable_weights) == 2


def test_rejects_training_after_losing_the_objective(tmp_path):
    model = classifier()
    model.compile(AdamW(1e-3), objective=RDrop(model, 1.0))
    model.fit(TEXTS, LABELS, verbose=0)
    loaded = reloaded(model, tmp_path)
    with pytest.raises(InputError, match=r"call compile\(objective=RDrop\(...\)\) again"):
        loaded.fit(TEXTS, LABELS, verbose=0)
    loaded.compile(AdamW(1e-3), objective=RDrop(loaded, 1.0))
    loaded.fit(TEXTS, LABELS, verbose=0)


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
    with pytest.raises(InputError, match="frozen or unfrozen after training. Call compile"):
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


def of_class(kind):
    return kind(encoder(dropout=0.0), tokenizer(), labels=["negative", "positive"])


def test_the_compute_loss_of_a_subclass_is_trained_and_evaluated():
    plain, scaled = of_class(type(classifier())), of_class(SevenTimes)
    loss_pairs = []
    for model in (plain, scaled):
        model.compile(keras.optimizers.SGD(0.0), metrics=[])
        history = model.fit(TEXTS, LABELS, verbose=0).history
        loss_pairs.append((history["loss"][0], model.evaluate(TEXTS, LABELS, verbose=0)))
    np.testing.assert_allclose(
        loss_pairs[1], np.multiply(loss_pairs[0], 7), rtol=1e-5
    )  # float32 sums
    scaled.compile(keras.optimizers.SGD(1e-3), metrics=[])
    plain.compile(keras.optimizers.SGD(7e-3), metrics=[])
    for model in (plain, scaled):
        model.fit(TEXTS[:8], LABELS[:8], verbose=0, shuffle=False)
    np.testing.assert_allclose(weights(scaled), weights(plain), atol=1e-6)


def test_compute_loss_knows_whether_it_trains():
    model = of_class(MoreInTraining)
    model.compile(keras.optimizers.SGD(0.0), metrics=[])
    trained = model.fit(TEXTS, LABELS, verbose=0).history["loss"][0]
    np.testing.assert_allclose(trained, model.evaluate(TEXTS, LABELS, verbose=0) + 100, rtol=1e-6)


def test_what_a_subclass_cannot_change_is_refused():
    with pytest.raises(
        InputError, match="SevenTimes overrides compute_loss, which does not support"
    ):
        of_class(SevenTimes).compile(accumulation_steps=2)
    with pytest.raises(InputError, match="MoreLogs returns 'extra' from train_step, test_step or"):
        of_class(MoreLogs).fit(TEXTS, LABELS, verbose=0)
