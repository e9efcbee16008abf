"""Graceful end of a run on SIGTERM, for preemptible machines."""

import logging
import signal
import threading
from typing import Any

import keras

from keras_bert_impl.training.strategy import mean_of_workers

_LOG = logging.getLogger(__name__)


class EndsOnSigterm(keras.callbacks.Callback):
    """Ends `fit` after the Keras epoch in which this or another worker received SIGTERM."""

    def __init__(self) -> None:
        super().__init__()
        self.has_ended = False
        self._asked = False
        self._before = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, *_):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _ask(self, *_):
        self._asked = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if float(mean_of_workers(self.model.distribute_strategy, float(self._asked))) > 0:
            _LOG.warning("SIGTERM: saved and stopped; run the same command again to resume")
            self.has_ended = self.model.stop_training = True
