"""Best epoch: which one it is, when to stop, and that its checkpoint exists in the end."""

import math

import keras
import numpy as np
import pytest

from keras_bert_impl.training.runs.checkpoints import KEY, BestEpoch, RunCheckpoint
from keras_bert_impl.utils.errors import InputError
from tests.training.helpers import adamw, build, dataset


@pytest.mark.parametrize(
    "scores, best",
    [([0.1], 1), ([0.1, 0.3, 0.2], 2), ([0.3, 0.3], 1), ([math.nan, -1.0], 2), ([math.nan], 1)],
)
def test_the_best_epoch(scores, best):
    assert BestEpoch(None, None, scores).best == best
    errors = [-score for score in scores]
    assert BestEpoch(None, None, errors, rank=lambda error: -error).best == best


def test_warns_of_an_epoch_without_a_score(caplog):
    best = BestEpoch(lambda: math.nan, scores=[0.1])
    best.on_epoch_end(1, logs := {})
    assert math.isnan(logs[KEY]) and best.best == 1
    assert "epoch 2 has no score (NaN)" in caplog.text


@pytest.mark.parametrize(
    "scores, patience, is_over",
    [
        ([], 1, False),
        ([0.1, 0.2], 1, False),
        ([0.2, 0.2], 1, True),
        ([0.2, 0.1, 0.1], 3, False),
        ([0.2, 0.1, 0.1, 0.1], 3, True),
        ([0.2, 0.1, 0.1, 0.1], None, False),
    ],
)
def test_patience(scores, patience, is_over):
    assert BestEpoch(None, patience, scores).is_over == is_over


class Record(keras.callbacks.Callback):
    """Records weights and scores of each epoch."""

    def on_train_begin(self, logs=None):
        self.weights, self.scores = [], []

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(self.model.get_weights())
        self.scores.append(logs[KEY])


def test_the_best_checkpoint_is_kept_and_restored(tmp_path):
    model = build()
    model.compile(adamw(), jit_compile=False)
    scores = [0.5, 0.9, 0.6, 0.9, 0.7, 1.0]
    best, record = BestEpoch(lambda: scores[len(best.scores)], patience=3), Record()
    checkpoint = RunCheckpoint(model, tmp_path, best=best)
    data = dataset(16, 16).repeat()
    callbacks = [best, record, checkpoint]
    model.fit(data, steps_per_epoch=1, epochs=8, verbose=0, callbacks=callbacks)
    # The second and fourth tie for the best; the sixth, which is better, is never reached.
    assert record.scores == best.scores == scores[:5] and best.best == 2
    names = sorted(path.name for path in tmp_path.glob("*.index"))
    assert names == [f"ckpt-{epoch}.index" for epoch in (2, 3, 4, 5)]  # newest three and the best
    assert len(list(tmp_path.glob("*.data-*"))) == 4
    checkpoint.restore_best()
    for now, then in zip(model.get_weights(), record.weights[1], strict=True):
        np.testing.assert_array_equal(now, then)
    assert checkpoint.restore() == 5  # a resumed run continues from the newest
    (tmp_path / "ckpt-2.index").unlink()
    with pytest.raises(InputError, match="ckpt-2, the checkpoint of the best epoch"):
        checkpoint.restore_best()
