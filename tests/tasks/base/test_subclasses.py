"""Subclasses of task models, written as in the guides of Keras."""

import contextlib

import keras
import numpy as np
import pytest

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import MultipleChoice, TextClassifier, TextEmbedder, TokenClassifier
from keras_bert_impl.training.steps.trainer import num_examples
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.tasks.helpers import encoder, examples, tokenizer, weights

TEXTS, LABELS = examples(count=16)
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


class Guide(TextClassifier):
    """The `train_step` of Keras's guide, which computes the loss without x."""

    if ON_TENSORFLOW:

        def train_step(self, data):
            import tensorflow as tf

            x, y = data
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=y_pred)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return self._logs_of(loss, y, y_pred)

        def _logs_of(self, loss, y, y_pred):
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred)
            return {metric.name: metric.result() for metric in self.metrics}

    else:

        def _loss_and_outputs(self, trainable, non_trainable, x, y):
            y_pred, non_trainable = self.stateless_call(trainable, non_trainable, x, training=True)
            return self.compute_loss(y=y, y_pred=y_pred), (y_pred, non_trainable)

        def train_step(self, state, data):
            import jax

            trainable, non_trainable, of_optimizer, of_metrics = state
            compute = jax.value_and_grad(self._loss_and_outputs, has_aux=True)
            (loss, (_, non_trainable)), gradients = compute(trainable, non_trainable, *data)
            trainable, of_optimizer = self.optimizer.stateless_apply(
                of_optimizer, gradients, trainable
            )
            return {"loss": loss}, (trainable, non_trainable, of_optimizer, of_metrics)


@pytest.mark.parametrize("metrics", [[], None])
def test_a_train_step_of_keras_trains(metrics):
    models = []
    for cls in (TextClassifier, Guide):
        model = cls(encoder(dropout=0.0), tokenizer(), labels=["negative", "positive"])
        model.compile(keras.optimizers.SGD(0.5), metrics=metrics)
        before = weights(model)
        assert len(model.fit(TEXTS, LABELS, epochs=3, verbose=0).history["loss"]) == 3
        assert np.abs(weights(model) - before).max() > 1e-3
        models.append(model)
    np.testing.assert_allclose(*map(weights, models), atol=1e-6)


def gradient_step(model, x, y):
    """Updates a model as in Keras's guide, without metrics; returns the loss and the logits."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        losses = keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply(gradients, model.trainable_variables)
    return loss, logits


class OnlyLoss(TextClassifier):
    def train_step(self, data):
        return {"loss": gradient_step(self, *data)[0]}


class OwnLogs(TextClassifier):
    def train_step(self, data):
        x, y = data
        loss, logits = gradient_step(self, x, y)
        return {"loss": loss, "accuracy": 7.0, "margin": keras.ops.mean(keras.ops.abs(logits))}


class MoreOfOurs(TextClassifier):
    def train_step(self, data):
        return super().train_step(data)


@pytest.mark.on_tensorflow
@pytest.mark.parametrize("steps_per_execution", [1, 2])
@pytest.mark.parametrize("arguments", [{}, {"metrics": []}, {"run_eagerly": True}])
@pytest.mark.parametrize(
    "cls, names", [(OnlyLoss, {"loss"}), (OwnLogs, {"loss", "accuracy", "margin"})]
)
def test_logs_of_an_own_step_are_reported(cls, names, arguments, steps_per_execution):
    arguments = arguments | {"steps_per_execution": steps_per_execution}
    model = cls(encoder(dropout=0.0), tokenizer(), labels=["negative", "positive"])
    model.compile(keras.optimizers.SGD(0.5), **arguments)
    data = (TEXTS, LABELS)
    history = model.fit(*data, batch_size=8, epochs=2, validation_data=data, verbose=0).history
    log_names = {name for name in history if not name.startswith("val_")}
    assert log_names == names and min(history["loss"]) > 0
    assert history.get("accuracy", [7.0, 7.0]) == [7.0, 7.0]
    plain = TextClassifier(encoder(dropout=0.0), tokenizer(), labels=["negative", "positive"])
    plain.compile(keras.optimizers.SGD(0.5))
    plain.fit(*data, batch_size=8, epochs=2, verbose=0)
    np.testing.assert_allclose(weights(model), weights(plain), atol=1e-6)
    assert history["val_loss"][-1] == pytest.approx(plain.evaluate(*data, verbose=0)[0], rel=1e-4)


@pytest.mark.on_tensorflow
def test_an_own_step_that_calls_ours_has_the_metrics_and_runs_on_replicas():
    def fitted(cls, strategy=contextlib.nullcontext()):
        with strategy:
            model = cls(encoder(dropout=0.0), tokenizer(), labels=["negative", "positive"])
            model.compile(keras.optimizers.SGD(0.5))
        return model.fit(TEXTS, LABELS, batch_size=8, verbose=0).history

    plain = fitted(TextClassifier)
    for strategy in (contextlib.nullcontext(), mirrored(2).scope()):
        history = fitted(MoreOfOurs, strategy)
        assert history.keys() == plain.keys()
        assert history["loss"] == pytest.approx(plain["loss"], rel=1e-4)
    with pytest.raises(InputError, match="train_step does not sum gradients over replicas"):
        fitted(OnlyLoss, mirrored(2).scope())


def test_the_loss_of_a_batch_needs_a_batch():
    assert num_examples(None, np.zeros((3, 2))) == 3
    with pytest.raises(InputError, match="needs x, y or y_pred"):
        num_examples(None, {"labels": None})


class _More:
    """Creates all kinds of variables in `__init__`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = keras.metrics.Mean(name="seen")
        self.draws = keras.random.SeedGenerator(3)
        self.second_optimizer = keras.optimizers.Adam(1e-3)
        self.projection = keras.layers.Dense(3)
        self.projection.build((None, 4))
        self.scale = keras.Variable(2.0, name="scale")
        self.bias = self.add_weight(name="bias", shape=(2,), initializer="ones")
        self.scale.assign(3.0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    TextClassifier(encoder(), tokenizer(), num_classes=2).save_pretrained(path)
    return path


@pytest.mark.parametrize(
    "cls, arguments",
    [
        (TextClassifier, {}),
        (TokenClassifier, {"labels": ["O", "B-X"]}),
        (MultipleChoice, {}),
        (TextEmbedder, {}),
        (Encoder, {}),
    ],
)
def test_variables_of_a_subclass_have_values_after_loading(directory, cls, arguments):
    model = type("Mine", (_More, cls), {}).from_pretrained(directory, **arguments)
    variables = [*model.seen.variables, model.draws.state, *model.second_optimizer.variables]
    variables += [*model.projection.variables, model.scale, model.bias, *model.variables]
    assert all(variable._value is not None for variable in variables)
    assert float(model.scale.value) == 3.0 and np.asarray(model.bias.value).tolist() == [1, 1]
    if cls is not Encoder:
        model = model.encoder
    loaded = Encoder.from_pretrained(directory, use_pooler=model.config.use_pooler)
    arrays = {weight.path: np.asarray(weight.value) for weight in model.weights}
    for weight in loaded.weights:
        np.testing.assert_array_equal(weight.value, arrays[weight.path])


def test_encoders_are_cloned():
    model = encoder()
    assert len(keras.models.clone_model(model).weights) == len(model.weights)
