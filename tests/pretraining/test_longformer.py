"""Pre-training of a Longformer on packed rows; the first token of each example is global."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.checkpoints.interop import encoder_config
from keras_bert_impl.layers.basic import dropout_seed, recomputation
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining import Pretrainer
from keras_bert_impl.pretraining.run import pretrain
from tests.helpers import randomize
from tests.pretraining.helpers import CONFIG, masked_batch, settings_of
from tests.pretraining.test_run_on_jax import PROGRAM
from tests.training.helpers import output_of, start_python

LONGFORMER = CONFIG | {
    "model_type": "longformer",
    "num_hidden_layers": 2,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "attention_window": 8,
}


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "shape.json").write_text(json.dumps(LONGFORMER))
    return settings_of(tmp_path / "shape.json")


def weights(run):
    encoder = Encoder.from_pretrained(run / "model", use_pooler=False)  # untrained: not saved
    return {weight.path: weight.numpy() for weight in encoder.weights}


def test_trains_every_projection():
    encoder = Encoder(encoder_config(LONGFORMER | {"vocab_size": 50}))
    randomize(encoder)
    pretrainer = Pretrainer(encoder, ["masked_lm"])
    features, _, _ = masked_batch(encoder.config)
    features["example_ids"][:, 5:9] = 2
    features["position_ids"][:, 5:9] -= 5
    with tf.GradientTape() as tape, recomputation(), dropout_seed(tf.constant([1, 2])):
        logits = pretrainer(features, training=True)["masked_lm"]
        loss = tf.reduce_sum(logits[:, :3] ** 2)
    weights = encoder.trainable_weights
    slopes = dict(zip([w.path for w in weights], tape.gradient(loss, [w.value for w in weights])))
    for name in ("query", "key", "value", "query_global", "key_global", "value_global"):
        assert np.abs(slopes[f"layer_0/attention/{name}/kernel"]).max() > 1e-3, name


@pytest.mark.slow
def test_run_on_jax_equals_tensorflow(records_directory, tmp_path, settings, monkeypatch):
    settings |= {"objectives": ["masked_lm"], "dropout": 0.0}
    pretrain(records_directory, tmp_path / "first", **settings | {"total_steps": 1})
    settings |= {"model": str(tmp_path / "first" / "model")}
    pretrain(records_directory, tmp_path / "tensorflow", **settings)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    runs = json.dumps({"jax": settings})
    output_of(start_python(PROGRAM, records_directory, tmp_path, runs), timeout=900)
    received = weights(tmp_path / "jax")
    for path, value in weights(tmp_path / "tensorflow").items():
        np.testing.assert_allclose(received[path], value, rtol=0, atol=1e-4, err_msg=path)
