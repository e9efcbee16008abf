"""A tiny pre-training run: model shape, settings, and interruption."""

import keras
import numpy as np

CONFIG = {
    "model_type": "bert",
    "vocab_size": 1,  # replaced by the size in the records
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}


def settings_of(shape):
    return {
        "model": str(shape),
        "total_steps": 6,
        "report_every": 2,
        "batch_size": 8,
        "learning_rate": 1e-2,
        "verbose": 0,
    }


class Stop(keras.callbacks.Callback):
    """Interrupts a run within a report interval, as a kill would."""

    def __init__(self, batch):
        super().__init__()
        self.left = batch

    def on_train_batch_begin(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def weights(model):
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()])


def masked_batch(config, rows=4, seed=0):
    """Creates (features, labels, weights): the second half is padding, each row has an unused slot.

    Args:
        config: `EncoderConfig`; rows have its maximum length, which must exceed 9 tokens.
    """
    draw, length = np.random.default_rng(seed), config.max_length
    features = {
        "token_ids": draw.integers(1, config.vocabulary_size, (rows, length)),
        "segment_ids": draw.integers(0, config.num_segments or 1, (rows, length)),
        "position_ids": np.tile(np.arange(length), (rows, 1)),
        "example_ids": np.ones((rows, length)),
        "masked_positions": np.tile([2, 5, 7, 0], (rows, 1)),
    }
    features["example_ids"][rows // 2 :, 9:] = 0
    weights = np.tile([1, 1, 1, 0], (rows, 1))
    labels = draw.integers(1, config.vocabulary_size, (rows, 4)) * weights
    return (
        {name: value.astype("int32") for name, value in features.items()},
        {"masked_lm": labels.astype("int32")},
        {"masked_lm": weights.astype("float32")},
    )
