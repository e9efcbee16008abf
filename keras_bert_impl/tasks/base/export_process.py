"""Export of a model in a process with the TensorFlow backend, for models on other backends.

Run as a program, exports the model that another process has saved:
`python -m keras_bert_impl.tasks.base.export_process DIRECTORY`.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import temporary_directory

_REQUEST, _WEIGHTS = "request.json", "model.weights.h5"
_BAD_INPUT = 2  # exit status after an `InputError`


def export_on_tensorflow(model: Any, filepath: str | Path, arguments: dict[str, Any]) -> None:
    """Exports a `TaskModel` in another process, which has the TensorFlow backend.

    Args:
        filepath: see `TaskModel.export`.
        arguments: the other arguments of `TaskModel.export`, as JSON can hold them.

    Raises:
        InputError: that of the other process.
        RuntimeError: it failed otherwise.
    """
    with temporary_directory() as directory:
        model.save_weights(directory / _WEIGHTS)
        config = keras.saving.serialize_keras_object(model)
        config.pop("compile_config", None)
        request = {
            "module": type(model).__module__,
            "config": config,
            "filepath": str(Path(filepath).absolute()),
            "arguments": arguments,
        }
        (directory / _REQUEST).write_text(json.dumps(request), encoding="utf-8")
        # The accelerator belongs to this process.
        environment = os.environ | {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
        ended = subprocess.run(
            [sys.executable, "-m", __name__, str(directory)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    if ended.returncode == _BAD_INPUT:
        raise InputError(ended.stderr.strip().rpartition("\n")[2])
    if ended.returncode:
        raise RuntimeError(
            "the export on TensorFlow failed; the end of its messages: "
            f"{ended.stderr.strip()[-2000:]}"
        )


def main(directory: Path) -> int:
    """Exports the model of a folder; returns the exit status."""
    request = json.loads((directory / _REQUEST).read_text(encoding="utf-8"))
    importlib.import_module(request["module"])  # registers the class
    model = keras.saving.deserialize_keras_object(request["config"])
    model.load_weights(directory / _WEIGHTS)
    try:
        model.export(request["filepath"], **request["arguments"])
    except InputError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return _BAD_INPUT
    return 0


if __name__ == "__main__":
    keras.config.disable_traceback_filtering()
    sys.exit(main(Path(sys.argv[1])))
