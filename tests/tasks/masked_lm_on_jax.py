"""Trains a masked language model on all JAX devices, with batches that do not divide them."""

import sys

import pytest

from keras_bert_impl.tasks import MaskedLM
from keras_bert_impl.training.strategy import get_strategy
from tests.tasks.helpers import examples

texts, _ = examples(count=13)
with get_strategy("auto").scope():
    model = MaskedLM.from_pretrained(sys.argv[1])
held_out = texts[:5]
history = model.fit(texts, batch_size=4, epochs=2, validation_data=held_out, verbose=0).history
scores = model.evaluate(held_out, batch_size=4, verbose=0, return_dict=True)
assert scores["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
assert history["loss"][1] < history["loss"][0]
