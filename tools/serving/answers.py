"""Processes that run SavedModels without this package."""

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


class Answers:
    """A process that runs SavedModels.

    Args:
        loader: a key of `_LOADERS`.
    """

    def __init__(self, loader: str) -> None:
        self._command = [sys.executable, __file__, loader]

    def __enter__(self):
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._errors.close()

    def ask(
        self, directory: str | Path, signature: str, batches: list[dict[str, list]]
    ) -> list[dict]:
        """Returns the outputs of each example in the batches."""
        request = {"directory": str(directory), "signature": signature, "batches": batches}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{directory} cannot be run:\n{self._errors.read()[-3000:]}")
        return json.loads(line)


def answer_requests(loader: str) -> None:
    """Main loop of the process: for each line of JSON on stdin, writes a line to stdout."""
    sys.modules["keras_bert_impl"] = None  # any import raises an error
    load, loaded = _LOADERS[loader](), {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["directory"] not in loaded:
            loaded = {request["directory"]: load(request["directory"])}
        ask, rows = loaded[request["directory"]], []
        for batch in request["batches"]:
            outputs = ask(request["signature"], batch)
            rows += [
                dict(zip(outputs, row)) for row in zip(*map(_convert_to_list, outputs.values()))
            ]
        print(json.dumps(rows, default=bytes.decode), flush=True)


def _convert_to_list(output):
    return np.asarray(output).tolist()


def _use_tensorflow(with_text):
    if with_text:
        import tensorflow_text  # noqa: F401, the operations of tokenizers
    else:
        sys.modules["tensorflow_text"] = None
    import tensorflow as tf

    def load(directory):
        signatures = tf.saved_model.load(directory).signatures

        def ask(signature, batch):
            return signatures[signature](**{n: tf.constant(rows) for n, rows in batch.items()})

        return ask

    return load


def _use_c_api():
    import c_api

    library = c_api.load_libraries()
    sys.modules["tensorflow"] = None  # the Python API must not be used

    def load(directory):
        model = c_api.Model(directory, library)
        return lambda signature, batch: model.ask(signature, **batch)

    return load


_LOADERS = {
    "strings": lambda: _use_tensorflow(with_text=True),
    "ids": lambda: _use_tensorflow(with_text=False),
    "c_api": _use_c_api,
}


if __name__ == "__main__":
    answer_requests(sys.argv[1])
