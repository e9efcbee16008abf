"""Fine-tunes with two seeds; given one as the last argument, kills itself during its run."""

import os
import signal
import sys

import keras

from keras_bert_impl.tasks import Examples, finetune_set
from tests.tasks.helpers import examples

model, out, *seed = sys.argv[1:]


class Kill(keras.callbacks.Callback):
    """Kills the process like the operating system does, without clean-up."""

    def on_train_batch_end(self, batch, logs=None):
        # In the second epoch: an epoch has two batches.
        step = int(self.model.optimizer.iterations)
        if seed and self.model.compile_arguments()["seed"] == int(seed[0]) and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)


sets = [Examples(*examples(count=16, seed=number), source="made up") for number in (0, 1)]
settings = {"batch_size": 8, "epochs": 3, "learning_rate": 1e-3, "max_length": 16}
finetune_set(model, *sets, out, {"seed": [1, 2]}, callbacks=[Kill()], verbose=0, **settings)
