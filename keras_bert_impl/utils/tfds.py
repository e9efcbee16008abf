"""Opens TensorFlow Datasets without importing classes named in their files."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.paths import expanded

_LIBRARY = "tensorflow_datasets."
_ONE_AT_A_TIME = threading.Lock()


def open_dataset(name: str | Path, split: str, data_dir: str | Path | None = None) -> Any:
    """Returns (`tf.data.Dataset`, features); downloads and prepares the dataset if needed."""
    import tensorflow_datasets as tfds

    name, data_dir = expanded(name), expanded(data_dir)
    is_directory = os.path.isdir(name)
    if is_directory and not os.path.isfile(os.path.join(name, "dataset_info.json")):
        raise InputError(f"{name} is not a prepared dataset: dataset_info.json is missing.")
    with _reject_other_classes(tfds, name), _convert_errors(name):
        if is_directory:
            builder = tfds.builder_from_directory(name)
        else:
            builder = tfds.builder(str(name), data_dir=data_dir)
            builder.download_and_prepare()  # has no effect on a prepared dataset
    with _convert_errors(f"{name}, split {split!r}"):
        return builder.as_dataset(split=split, shuffle_files=False), builder.info.features


@contextlib.contextmanager
def _reject_other_classes(tfds, name):
    # TensorFlow Datasets imports the module of any class that features.json names.
    connector = tfds.features.FeatureConnector

    def check_class(cls: type, class_name: Any) -> Any:
        if not isinstance(class_name, str) or not class_name.startswith(_LIBRARY):
            raise InputError(
                f"{name}: the class {shown(class_name)} in features.json is not part of "
                "tensorflow_datasets; other classes are not supported."
            )
        return original.__get__(None, cls)(class_name)

    with _ONE_AT_A_TIME:
        original = connector.__dict__["cls_from_name"]
        connector.cls_from_name = classmethod(check_class)
        try:
            yield
        finally:
            connector.cls_from_name = original


@contextlib.contextmanager
def _convert_errors(name: str | Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(
            f"{name}: TensorFlow Datasets cannot load the dataset: {reason}"
        ) from error
