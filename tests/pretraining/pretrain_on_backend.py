"""Pre-trains several times in sequence on the backend in KERAS_BACKEND.

Arguments: folder of the records, folder for the runs, and JSON of run names and their settings.
`stop_at` interrupts a run in that batch; it is then resumed. `model_devices` is that of
`get_strategy`.
"""

import json
import sys
from pathlib import Path

from keras_bert_impl.pretraining.run import pretrain
from keras_bert_impl.training.strategy import get_strategy
from tests.pretraining.helpers import Stop


def main(records, folder, runs):
    for name, settings in json.loads(runs).items():
        stop_at = settings.pop("stop_at", None)
        if "model_devices" in settings:
            settings["strategy"] = get_strategy("auto", settings.pop("model_devices"))
        if stop_at:
            try:
                pretrain(records, Path(folder) / name, callbacks=[Stop(stop_at)], **settings)
                raise AssertionError("nothing stopped it")
            except KeyboardInterrupt:
                pass
        pretrain(records, Path(folder) / name, **settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
