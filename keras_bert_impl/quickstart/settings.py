"""Settings of the quickstart; imports nothing heavy, for the command line's help."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class QuickstartSettings:
    """Sizes of the main job, chosen so that it ends within ten minutes on two cores.

    Args:
        vocabulary_size: int.
        num_layers, hidden_dim, num_heads: int. Shape of the encoder.
        length: int. Tokens of a row of the pre-training data.
        batch_size: int. Rows of a pre-training step.
        pretraining_steps: int. A multiple of 100.
        learning_rate: float. Peak of pre-training.
        libraries: int. Classes to tell apart.
        texts_per_library: int. At most so many labelled texts of a library to train on.
        finetuning_epochs: int.
        finetuning_rate: float. Peak of fine-tuning.
        seed: int.
    """

    vocabulary_size: int = 8000
    num_layers: int = 2
    hidden_dim: int = 128
    num_heads: int = 2
    length: int = 128
    batch_size: int = 16
    pretraining_steps: int = 1500
    learning_rate: float = 2e-3
    libraries: int = 8
    texts_per_library: int = 300
    finetuning_epochs: int = 4
    finetuning_rate: float = 3e-4
    seed: int = 0
