"""Trains 4 epochs of 2 steps with dropout; resumes automatically; prints steps, then weights."""

import json
import sys

import keras

from keras_bert_impl.training.runs.checkpoints import RunCheckpoint
from tests.training.helpers import adamw, build, dataset, weights

STEPS, EPOCHS = 2, 4


class PrintsSteps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("step", int(self.model.optimizer.iterations.numpy()), flush=True)


def main(directory):
    model = build(dropout=0.2)
    model.compile(adamw(), dropout_seed=5, jit_compile=False)
    checkpoint = RunCheckpoint(model, directory, seed=5)
    start = checkpoint.restore()
    model.fit(
        dataset(8, 48).repeat().skip(start * STEPS),
        initial_epoch=start,
        epochs=EPOCHS,
        steps_per_epoch=STEPS,
        verbose=0,
        callbacks=[checkpoint, PrintsSteps()],
    )
    result = {"start": start, "weights": [array.ravel().tolist() for array in weights(model)]}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
