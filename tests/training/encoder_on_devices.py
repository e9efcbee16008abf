"""An encoder with a head, trained by `ReplicatedTrainer` on the devices of a strategy.

As a program, on JAX with 8 simulated devices: trains from the weights in a file and checks errors.
Arguments: the file, and a folder, into which the weights of each case are written. Prints JSON.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from keras_bert_impl.training.strategy import get_strategy, use_cpu_devices
from keras_bert_impl.utils.errors import InputError

CONFIG = EncoderConfig(
    vocabulary_size=40,
    hidden_dim=16,
    num_layers=2,
    num_heads=4,
    intermediate_dim=32,
    max_length=8,
    dropout=0.0,
    attention_dropout=0.0,
)
ROWS, STEPS = 16, 4
OPTIONS = {"accumulation_steps": 2, "steps_per_execution": 2, "watch_steps": True}


class Tagger(ReplicatedTrainer, keras.Model):
    """Predicts one of three tags for each token; uses Keras's own loss."""


def build(dtype="float32", weights=None):
    """Creates a compiled model, with clipping, weight decay and moving averages."""
    encoder = Encoder(CONFIG, dtype=dtype)
    ids = keras.Input((CONFIG.max_length,), dtype="int32")
    outputs = encoder({"token_ids": ids})
    # Both outputs: on JAX, weights that the loss does not depend on have a gradient of zeros.
    states = outputs["sequence_output"] + outputs["pooled_output"][:, None]
    model = Tagger(ids, keras.layers.Dense(3, dtype="float32", name="head")(states))
    # Adam amplifies gradient rounding by up to learning_rate / epsilon: 10.
    optimizer = AdamW(
        LinearWarmupDecay(1e-2, 1, 20),
        weight_decay=0.1,
        epsilon=1e-3,
        global_clipnorm=0.5,
        use_ema=True,
        ema_momentum=0.5,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, jit_compile=False, **OPTIONS)
    if weights is not None:
        model.set_weights(weights)
    return model


def train(model):
    """Trains for `STEPS` steps; returns the history."""
    draw = np.random.default_rng(3)
    ids = draw.integers(1, CONFIG.vocabulary_size, (ROWS * STEPS, CONFIG.max_length))
    tags = draw.integers(0, 3, ids.shape)
    data = ids.astype("int32"), tags.astype("int32")
    return model.fit(*data, batch_size=ROWS, epochs=1, shuffle=False, verbose=0).history


def bytes_of_first_device(variables):
    import jax

    shards = [shard for variable in variables for shard in variable.value.addressable_shards]
    return sum(shard.data.nbytes for shard in shards if shard.device == jax.devices()[0])


def main(file, folder):
    with np.load(file) as saved:
        weights = [saved[name] for name in saved.files]
    facts, strategies = {}, {}
    for case, name, model_devices, dtype in (
        ("one", "one_device", 1, "float32"),
        ("devices", "auto", 1, "float32"),
        ("model", "mirrored", 4, "float32"),
        ("one_bf16", "one_device", 1, "mixed_bfloat16"),
        ("devices_bf16", "auto", 1, "mixed_bfloat16"),
    ):
        strategies[case] = get_strategy(name, model_devices)
        with strategies[case].scope():
            model = build(dtype, weights)
        history = train(model)
        np.savez(Path(folder) / f"{case}.npz", *model.get_weights())
        facts[case] = {
            "replicas": strategies[case].num_replicas_in_sync,
            "history": history,
            "slots": bytes_of_first_device(model.optimizer.variables),
            "weights": bytes_of_first_device(model.trainable_variables),
        }
    with strategies["devices"].scope():  # entered again after the others
        facts["again"] = train(build(weights=weights))
    facts["errors"] = errors(model=build())
    print(json.dumps(facts))


def errors(model):
    """Returns the messages of what the eight devices cannot do."""
    ids = np.ones((12, CONFIG.max_length), "int32")

    def batch():
        model.predict(ids, verbose=0)

    def theirs(*arguments):
        with keras.distribution.DataParallel().scope():
            facts = get_strategy().num_replicas_in_sync, type(keras.distribution.distribution())
            assert facts == (8, keras.distribution.DataParallel)
            get_strategy(*arguments)

    messages = {}
    for name, function, *arguments in (
        ("batch", batch),
        ("tpu", get_strategy, "tpu"),
        ("model_devices", get_strategy, "auto", 3),
        ("workers", get_strategy, "multi_worker"),
        ("cpu devices", use_cpu_devices, 2),
        ("one device of theirs", theirs, "one_device"),
        ("model devices of theirs", theirs, "auto", 2),
    ):
        try:
            function(*arguments)
        except InputError as error:
            messages[name] = str(error)
    return messages


if __name__ == "__main__":
    main(*sys.argv[1:])
