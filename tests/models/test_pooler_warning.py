"""Keras's warning about variables without gradients, for a head that does not use the pooler."""

import subprocess
import sys

# A new process, because pytest replaces the filters of warnings.
_TRAIN = """
import keras, numpy as np
from keras_bert_impl import Encoder, EncoderConfig
class Head(keras.Model):
    def __init__(self):
        super().__init__()
        config = EncoderConfig(
            vocabulary_size=9, hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=8
        )
        self.encoder, self.dense = Encoder(config), keras.layers.Dense(2)
        self.unused = self.add_weight(name="unused") if {has_unused} else None
    def call(self, features):
        return self.dense(self.encoder(features)["sequence_output"])
head = Head()
head.compile("adam", "mse")
features = {{
    "token_ids": np.ones((2, 3), "int32"),
    "segment_ids": np.zeros((2, 3), "int32"),
    "padding_mask": np.ones((2, 3), "int32"),
}}
head.fit(features, np.zeros((2, 3, 2)), verbose=0)
"""


def test_only_the_unused_pooler_is_no_reason_to_warn():
    for has_unused in (False, True):
        result = subprocess.run(
            [sys.executable, "-c", _TRAIN.format(has_unused=has_unused)],
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        assert ("Gradients do not exist" in result.stderr) == has_unused
