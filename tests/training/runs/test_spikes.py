"""Detection of loss spikes."""

import numpy as np
import pytest

from keras_bert_impl.training.runs.reports import Spike, SpikeGuard


def test_a_loss_far_above_the_mean_of_the_epoch_before_is_a_spike():
    guard = SpikeGuard(3.0, lambda epochs: 10 * epochs)
    guard.on_epoch_end(0, {"loss": 8.0, "highest_loss": 11.0})  # nothing to compare with
    guard.on_epoch_end(1, {"loss": 2.0, "highest_loss": 24.0})
    with pytest.raises(Spike, match="steps 20 and 30 the loss rose to 6.1, after a mean of 2"):
        guard.on_epoch_end(2, {"loss": 2.5, "highest_loss": 6.1})
    guard.on_epoch_end(2, {"loss": 2.5, "highest_loss": 6.0})


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_loss_that_is_not_finite_is_a_spike(bad):
    with pytest.raises(Spike, match="between steps 0 and 10 the loss rose to"):
        SpikeGuard(3.0, lambda epochs: 10 * epochs).on_epoch_end(
            0, {"loss": 1.0, "highest_loss": bad}
        )


def test_a_small_loss_may_rise_by_a_large_factor():
    guard = SpikeGuard(3.0, lambda epochs: 10 * epochs)
    guard.on_epoch_end(0, {"loss": 0.01, "highest_loss": 0.02})
    guard.on_epoch_end(1, {"loss": 0.01, "highest_loss": 1.0})
    with pytest.raises(Spike, match="the loss rose to 1.02"):
        guard.on_epoch_end(2, {"loss": 0.01, "highest_loss": 1.02})
