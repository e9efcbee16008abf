"""Fine-tunes; kills itself in the middle of an epoch, or while it removes the checkpoints.

The last argument is the number of the epoch, or `checkpoints`.
"""

import os
import signal
import sys
from pathlib import Path

import keras

from keras_bert_impl.tasks import Examples, finetune
from tests.tasks.helpers import examples

model, out, *moment = sys.argv[1:]


class Kill(keras.callbacks.Callback):
    """Kills the process like the operating system does, without clean-up."""

    def on_epoch_begin(self, epoch_now, logs=None):
        self.epoch = epoch_now

    def on_train_batch_end(self, batch, logs=None):
        if moment == [str(self.epoch)] and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def unlink(path, before=Path.unlink, **how):
    """Removes a file; the data of a checkpoint only together with the process."""
    if (
        moment == ["checkpoints"]
        and path.match("ckpt-4.data*")
        and Path(out, "scores.json").exists()
    ):
        os.kill(os.getpid(), signal.SIGKILL)
    before(path, **how)


Path.unlink = unlink
sets = [Examples(*examples(count=24, seed=seed), source="made up") for seed in (0, 1)]
settings = {"batch_size": 8, "epochs": 4, "learning_rate": 1e-3, "max_length": 16}
settings["checkpoint_minutes"] = 1e-9  # a checkpoint after each step
finetune(model, *sets, out, callbacks=[Kill()], verbose=0, **settings)
