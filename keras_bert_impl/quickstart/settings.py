"""Settings of the quickstart; imports nothing heavy, for the command line's help."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class QuickstartSettings:
    """Sizes of the main job, chosen so that it ends within ten minutes on two cores.

    Args:
        vocabulary_size: int.
        num_layers, hidden_dim, num_heads: int. Shape of the encoder.
        length: int. Tokens of a row of the pre-training data.
        passes: int. Times that sentence pairs are drawn from the corpus.
        batch_size: int. Rows of a pre-training step.
        pretraining_steps: int. A multiple of 100.
        learning_rate: float. Peak of pre-training.
        mask_rate: float. Part of the tokens to predict.
        libraries: int. Classes to tell apart.
        texts_per_library: int. At most so many labelled texts of a library, to train on and
            again to score on.
        finetuning_epochs: int.
        finetuning_rate: float. Peak of fine-tuning.
        seed: int.
    """

    vocabulary_size: int = 5000
    num_layers: int = 2
    hidden_dim: int = 128
    num_heads: int = 4
    length: int = 64
    passes: int = 3
    batch_size: int = 32
    pretraining_steps: int = 3300
    learning_rate: float = 2e-3
    mask_rate: float = 0.3
    libraries: int = 8
    texts_per_library: int = 100
    finetuning_epochs: int = 8
    finetuning_rate: float = 1e-3
    seed: int = 0
