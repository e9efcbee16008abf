"""Settings of a fine-tuning run; imports nothing heavy, for the command line's help."""

import dataclasses

from keras_bert_impl.errors import InputError


@dataclasses.dataclass(frozen=True)
class FinetuneSettings:
    """Settings of a fine-tuning run.

    Args:
        model: str. A model directory.
        epochs: int.
        batch_size: int. Texts of the global batch.
        learning_rate: float. The highest.
        warmup: float. Share of the steps in which the rate rises; then it falls to 0.
        weight_decay: float. Not for biases and normalization layers.
        clip_norm: float or None. Limit of the global norm of the gradients.
        max_length: int. Texts are cut to so many tokens.
        dropout: float or None for the model's own.
        accumulation_steps: int. Micro-batches of a replica in a step.
        dtype: str. Keras dtype policy, such as `"mixed_bfloat16"`.
        seed: int. Decides the new head, the order of the texts and dropout.

    Source: Devlin et al., "BERT", appendix A.3.
    """

    model: str = ""
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 3e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    max_length: int = 128
    dropout: float | None = None
    accumulation_steps: int = 1
    dtype: str = "float32"
    seed: int = 1

    def __post_init__(self):
        for name in ("epochs", "batch_size", "accumulation_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1. Received: {getattr(self, name)}")
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup must be in [0, 1). Received: {self.warmup}")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate must be positive. Received: {self.learning_rate}")
