"""A small BERT with a masked-token loss and its data, for the tests of the training step."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.layers.basic import Dropout
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay
from keras_bert_impl.training.steps.trainer import ReplicatedTrainer
from tests.helpers import mirrored

ROOT = Path(__file__).parents[2]
VOCABULARY, LENGTH, HIDDEN, HEADS = 40, 8, 16, 2

# Gradients of up to 0.1 are rounded by 2**-24 of that in a few sums: 1e-8. Adam amplifies this by
# up to learning_rate / epsilon = 10 in each of 6 steps: 6e-7. A loss that each replica divides by
# its own count, or clipping before the reduction, would be off by 1e-2.
ROUNDING = 1e-6


class MaskedTokenModel(ReplicatedTrainer, keras.Model):
    """Averages over masked tokens of the global batch; `y` is -1 where a token is not masked."""

    def loss_totals(self, x, y, sample_weight):
        return ops.sum(ops.cast(y >= 0, "float32"))

    def loss_share(self, x, y, y_pred, sample_weight, totals):
        masked = ops.cast(y >= 0, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(
            ops.maximum(y, 0), ops.cast(y_pred, "float32"), from_logits=True
        )
        return ops.sum(losses * masked) / ops.maximum(totals, 1.0)


class Classifier(ReplicatedTrainer, keras.Model):
    """Uses Keras's own loss."""


def build(kind=MaskedTokenModel, dropout=0.0, dtype="float32", length=None, seed=0):
    """Creates embeddings, attention and a head: 3 classes for a `Classifier`, else token logits."""
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    keras.config.set_dtype_policy(dtype)
    ids = keras.Input((length,), dtype="int32", name="token_ids")
    mask = keras.Input((length,), dtype="int32", name="padding_mask")
    embed = layers.Embedding(VOCABULARY, HIDDEN, name="token_embeddings")
    x = Dropout(dropout)(layers.LayerNormalization(epsilon=1e-12)(embed(ids)))
    attention = layers.MultiHeadAttention(HEADS, HIDDEN // HEADS)
    x = x + Dropout(dropout)(attention(x, x, attention_mask=ops.cast(mask, "bool")[:, None, :]))
    x = layers.Dense(HIDDEN, activation="gelu")(layers.LayerNormalization(epsilon=1e-12)(x))
    if issubclass(kind, Classifier):
        outputs = layers.Dense(3, dtype="float32")(x[:, 0])
    else:
        # With tied output weights, the gradient of the embeddings sums dense and sparse parts.
        outputs = ops.matmul(x, ops.transpose(embed.embeddings))
    keras.config.set_dtype_policy("float32")
    return kind({"token_ids": ids, "padding_mask": mask}, outputs)


def examples(count=48, kind=MaskedTokenModel, seed=1):
    """Creates features and labels with 0 to 6 masked tokens per row."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(1, VOCABULARY, (count, LENGTH)).astype("int32")
    lengths = draw.integers(3, LENGTH + 1, count)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype("int32")
    features = {"token_ids": ids * mask, "padding_mask": mask}
    if issubclass(kind, Classifier):
        return features, draw.integers(0, 3, count).astype("int32")
    # Every third row, sorted by number of masked tokens, so that replicas get very different
    # counts.
    masked = np.arange(LENGTH) < np.sort(draw.integers(0, 7, count))[:, None]
    labels = np.where(masked & (mask == 1), ids, -1).astype("int32")
    order = np.argsort(np.arange(count) % 3, kind="stable")
    return {k: v[order] for k, v in features.items()}, labels[order]


def dataset(batch_size=16, count=48, kind=MaskedTokenModel, drop_remainder=False):
    return tf.data.Dataset.from_tensor_slices(examples(count, kind)).batch(
        batch_size, drop_remainder=drop_remainder
    )


def sgd():
    return keras.optimizers.SGD(0.5, clipnorm=0.05)


def adamw(**kwargs):
    # Adam amplifies gradient rounding by up to learning_rate / epsilon: 10, not 1e4.
    settings = {"weight_decay": 0.1, "global_clipnorm": 0.5, "epsilon": 1e-3} | kwargs
    return AdamW(LinearWarmupDecay(1e-2, 2, 20), **settings)


def train(
    replicas=1,
    kind=MaskedTokenModel,
    data=None,
    epochs=2,
    optimizer=adamw,
    model=None,
    callbacks=(),
    **kwargs,
):
    """Trains with this number of replicas; returns the model and the history."""
    compile_arguments = {"jit_compile": False} | kwargs
    if issubclass(kind, Classifier):
        compile_arguments.setdefault("loss", cross_entropy())
    with mirrored(replicas).scope():
        trained = build(kind, **(model or {}))
        trained.compile(optimizer=optimizer(), **compile_arguments)
    data = dataset(kind=kind) if data is None else data
    return trained, trained.fit(data, epochs=epochs, verbose=0, callbacks=list(callbacks)).history


def cross_entropy(**kwargs):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **kwargs)


def weights(model):
    return [np.asarray(w, "float64") for w in model.get_weights()]


def distance(first, second):
    """Returns the largest difference between the weights of two models."""
    pairs = zip(weights(first), weights(second), strict=True)
    return max(float(np.max(np.abs(a - b))) for a, b in pairs)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start(script, *arguments):
    """Starts `tests/training/<script>` in a separate process."""
    return start_python(ROOT / "tests" / "training" / script, *arguments)


def start_python(*arguments, tf_config=None, within=()):
    """Starts Python with these arguments as a `tf_config` worker; `within` prefixes the command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    if tf_config:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    return subprocess.Popen(
        [*within, sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_take_signals,
    )


def _take_signals():
    """Restores signal handling that a shell disables for background commands."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start_workers(*arguments, count=2, machines=None):
    """Starts a cluster of `count` Python workers with these arguments, on `machines` if given."""
    if machines is None:
        addresses, within = [f"127.0.0.1:{port}" for port in free_ports(count)], [()] * count
    else:
        addresses = [f"{address}:2222" for address in machines.values()]
        within = [("ip", "netns", "exec", name) for name in machines]
    tasks = [{"type": "worker", "index": index} for index in range(len(addresses))]
    return [
        start_python(
            *arguments, tf_config={"cluster": {"worker": addresses}, "task": task}, within=command
        )
        for task, command in zip(tasks, within)
    ]


def run_workers(*arguments, timeout=240, **cluster):
    """Same as `start_workers`, but returns the output of each."""
    workers = start_workers(*arguments, **cluster)
    try:
        return [output_of(worker, timeout) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()


def output_of(process, timeout=240):
    """Returns the output of a process, which must succeed."""
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, output[-3000:]
    return output


def result_of(process):
    """Returns the last line of JSON in the output of a process."""
    return last_json(output_of(process))


def last_json(output):
    """Returns the last line of JSON in a text."""
    return json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
