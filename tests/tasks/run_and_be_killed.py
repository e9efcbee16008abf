"""Fine-tunes; given the number of an epoch as the last argument, kills itself in this epoch."""

import os
import signal
import sys

import keras

from keras_bert_impl.tasks import Examples, finetune
from tests.tasks.helpers import examples

model, out, *epoch = sys.argv[1:]


class Kill(keras.callbacks.Callback):
    """Kills the process like the operating system does, without clean-up."""

    def on_epoch_begin(self, epoch_now, logs=None):
        self.epoch = epoch_now

    def on_train_batch_end(self, batch, logs=None):
        if epoch == [str(self.epoch)] and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


sets = [Examples(*examples(count=24, seed=seed), source="made up") for seed in (0, 1)]
settings = {"batch_size": 8, "epochs": 4, "learning_rate": 1e-3, "max_length": 16}
settings["checkpoint_minutes"] = 1e-9  # a checkpoint after each step
finetune(model, *sets, out, callbacks=[Kill()], verbose=0, **settings)
