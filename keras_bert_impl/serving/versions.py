"""Export of versioned models for TensorFlow Serving, with its configuration files."""

import contextlib
import re
import threading
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import claim, replace_file
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.serving.saved_model import export_saved_model
from keras_bert_impl.serving.signatures import Signatures

# Requests that arrive within two milliseconds are batched. Batches are not padded to a fixed size,
# and only strings are batched: ids of different lengths would need padding.
_BATCHING = """\
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 256 }
num_batch_threads { value: 4 }
"""
_MONITORING = """\
prometheus_config { enable: true, path: "/monitoring/prometheus/metrics" }
"""
_CONFIG = """\
model_config_list {
  config {
    name: "%s"
    base_path: "/models/%s"
    model_platform: "tensorflow"
  }
}
"""
_OF_THREADS = threading.Lock()


def export_version(
    signatures: Signatures,
    directory: str | Path,
    ids_only: bool = False,
    run: str | Path | None = None,
) -> Path:
    """Writes a model as the next version in a folder that TensorFlow Serving watches.

    The folder name is the model name. It gets `1/`, `2/`, ...; `models.config`, for a server that
    sees the folder as `/models/NAME`; `batching_parameters.txt` and `monitoring.config`.

    Args:
        directory: the folder.
        signatures, ids_only, run: see `export_saved_model`.

    Returns:
        Path of the version.

    Raises:
        InputError: the folder name is not a valid model name, the folder is a SavedModel, or another
            process is exporting to it.

    Example:
        from keras_bert_impl.serving import export_version
        export_version(classifier.signatures(), "models/reviews", run="run")
    """
    directory = local_path(directory).absolute()
    name = directory.name
    if not re.fullmatch("[A-Za-z0-9._-]+", name):
        raise InputError(
            f"{directory}: the folder's name, which becomes the name of the model, may have only "
            "letters, digits, '.', '_' and '-'."
        )
    _check_is_no_model(directory)
    with _no_other_export(directory):
        path = directory / str(_next_version(directory))
        export_saved_model(signatures, path, ids_only, name=name, run=run)
        for file, text in (
            ("models.config", _CONFIG % (name, name)),
            ("batching_parameters.txt", _BATCHING),
            ("monitoring.config", _MONITORING),
        ):
            with replace_file(directory / file) as temporary:
                temporary.write_text(text, encoding="utf-8")
    return path


@contextlib.contextmanager
def _no_other_export(directory):
    """Context manager in which nobody else chooses the number of a version here."""
    with _OF_THREADS:  # the lock of a file belongs to the process
        lock = claim(directory / ".lock")
        if lock is None:
            raise InputError(f"another process is exporting to {directory}; wait for it to finish.")
        try:
            yield
        finally:
            (directory / ".lock").unlink(missing_ok=True)
            lock.release()
            with contextlib.suppress(OSError):  # not empty: there is a version
                directory.rmdir()


def _check_is_no_model(directory):
    if (directory / "saved_model.pb").exists():
        raise InputError(f"{directory} is a SavedModel; give the folder for its versions.")


def _next_version(directory):
    found = [int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal()]
    return max(found, default=0) + 1
