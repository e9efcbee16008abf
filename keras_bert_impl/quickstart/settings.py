"""Settings of the quickstart; imports nothing heavy, for the command line's help."""

import dataclasses
import importlib.util
from typing import Annotated

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.settings import RowLength
from keras_bert_impl.settings import Fraction, PositiveFloat, PositiveInt, Range, Seed, validate

_NEEDED = {"sklearn": "scikit-learn, for a baseline", "matplotlib": "matplotlib, for pictures"}


@dataclasses.dataclass(frozen=True)
class QuickstartSettings:
    """Sizes of the main job, chosen so that it ends within ten minutes on two cores.

    Args:
        vocabulary_size: int.
        num_layers, hidden_dim, num_heads: int. Shape of the encoder.
        length: int. Tokens of a row of the pre-training data.
        passes: int. Times that sentence pairs are drawn from the corpus.
        batch_size: int. Rows of a pre-training step.
        pretraining_steps: int.
        learning_rate: float. Peak of pre-training.
        mask_rate: float. Part of the tokens to predict.
        libraries: int. Classes to tell apart.
        texts_per_library: int. At most so many labelled texts of a library, to train on and
            again to score on.
        finetuning_epochs: int.
        finetuning_rate: float. Peak of fine-tuning.
        seed: int.
    """

    vocabulary_size: PositiveInt = 5000
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


def check_installed():
    """Refuses to begin where a package is missing that the job needs in its end.

    Raises:
        InputError: names the package, and the command that installs it.
    """
    missing = [what for name, what in _NEEDED.items() if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(
            f"the quickstart needs {' and '.join(missing)}: "
            "pip install 'keras-bert-impl[metrics,plots]'."
        )
