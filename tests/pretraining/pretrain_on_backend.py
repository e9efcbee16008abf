"""Runs of pre-training on the backend that KERAS_BACKEND names, one after the other.

Arguments: folder of the records, a folder for the runs, and JSON: for each run its name and settings;
`stop_at` interrupts one in that batch, and then it goes on.
"""

import json
import sys
from pathlib import Path

from keras_bert_impl.pretraining.run import pretrain
from tests.pretraining.helpers import Stop


def main(records, folder, runs):
    for name, settings in json.loads(runs).items():
        stop_at = settings.pop("stop_at", None)
        if stop_at:
            try:
                pretrain(records, Path(folder) / name, callbacks=[Stop(stop_at)], **settings)
                raise AssertionError("nothing stopped it")
            except KeyboardInterrupt:
                pass
        pretrain(records, Path(folder) / name, **settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
