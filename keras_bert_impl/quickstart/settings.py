"""Settings of the quickstart. Does not import TensorFlow, so that `--help` is fast."""

import dataclasses
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Annotated

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import absolute
from keras_bert_impl.io.settings import Fraction, PositiveFloat, PositiveInt, Range, Seed, validate
from keras_bert_impl.pretraining.settings import RowLength
from keras_bert_impl.version import install_command

_NEEDED = {"sklearn": "scikit-learn, for a baseline", "matplotlib": "matplotlib, for pictures"}
_MEGABYTES = 200  # A finished job uses 75 MB. Checkpoints and temporary files need the rest.


@dataclasses.dataclass(frozen=True)
class QuickstartSettings:
    """Sizes of the quickstart job, chosen so that it finishes within ten minutes on two cores.

    Args:
        vocabulary_size: Size of the vocabulary to be learned.
        num_layers, hidden_dim, num_heads: Size of the encoder.
        length: Sequence length of the pre-training data.
        passes: Number of passes over the corpus, each with new sentence pairs.
        batch_size: Batch size of pre-training, in packed rows.
        pretraining_steps: Steps of pre-training.
        learning_rate: Peak learning rate of pre-training.
        mask_rate: Fraction of the tokens to predict.
        libraries: Number of libraries. Each library is a class.
        texts_per_library: Maximum number of labeled texts per library, both in the training set and
            in the held-out set.
        finetuning_epochs: Epochs of fine-tuning.
        finetuning_rate: Peak learning rate of fine-tuning.
        seed: Seed of all random choices.
    """

    # Single characters need about 200 tokens.
    vocabulary_size: Annotated[int, Range(least=300)] = 5000
    num_layers: PositiveInt = 2
    hidden_dim: PositiveInt = 128
    num_heads: PositiveInt = 4
    length: RowLength = 64
    passes: PositiveInt = 3
    batch_size: PositiveInt = 32
    pretraining_steps: PositiveInt = 3300
    learning_rate: PositiveFloat = 2e-3
    mask_rate: Fraction = 0.3
    libraries: Annotated[int, Range(least=2)] = 8
    texts_per_library: PositiveInt = 100
    finetuning_epochs: PositiveInt = 8
    finetuning_rate: PositiveFloat = 1e-3
    seed: Seed = 0

    def __post_init__(self):
        validate(self)
        if self.hidden_dim % self.num_heads:
            raise InputError(
                "hidden_dim must be a multiple of num_heads. Received: "
                f"hidden_dim={self.hidden_dim}, num_heads={self.num_heads}"
            )


def check_ready(output_directory: str | Path) -> None:
    """Raises `InputError` if packages or disk space are missing or the folder is not writable."""
    missing = [what for name, what in _NEEDED.items() if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(
            f"the quickstart needs {' and '.join(missing)}: {install_command('metrics,plots')}."
        )
    out = absolute(output_directory)
    folder = next(path for path in (out, *out.parents) if path.exists())
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another folder with --out.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder} is not writable; choose another folder with --out.")
    free = shutil.disk_usage(folder).free // 2**20
    if free < _MEGABYTES:
        raise InputError(
            f"{folder} has {free} MB of free space, but the quickstart needs {_MEGABYTES}; "
            "choose another folder with --out."
        )
