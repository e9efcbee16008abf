"""Loads a model with large weights on all JAX devices and trains it; prints what differs."""

import sys
from pathlib import Path

import keras
import numpy as np
from safetensors.numpy import load_file

from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.training.strategy import get_strategy

path = Path(sys.argv[1])
with get_strategy("auto").scope():
    model = TextClassifier.from_pretrained(path, labels=["a", "b"], max_length=16)
assert keras.distribution.distribution() is not None
saved = load_file(path / "model.safetensors")
name = next(name for name in saved if name.endswith("word_embeddings.weight"))
np.testing.assert_array_equal(model.encoder.embeddings.token_embeddings, saved[name])
history = model.fit(["good film", "bad"] * 5, ["a", "b"] * 5, batch_size=4, verbose=0).history
assert np.isfinite(history["loss"]).all()
