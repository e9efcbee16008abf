"""Schedules against closed forms and PyTorch."""

import math

import keras
import numpy as np
import pytest
import torch

from keras_bert_impl.training.optimizers.schedules import (
    CosineWarmupDecay,
    LinearWarmupDecay,
    OneCycle,
    SpendsBudget,
    TimeBudget,
)
from keras_bert_impl.utils.errors import InputError


def rates(schedule, steps):
    return [float(schedule(step)) for step in range(steps)]


def test_linear_rises_and_falls():
    learning_rates = rates(LinearWarmupDecay(2.0, warmup_steps=4, total_steps=12), 14)
    assert learning_rates[:4] == [0.5, 1.0, 1.5, 2.0]
    assert learning_rates[4:] == [2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert float(LinearWarmupDecay(2.0, 0, 4)(0)) == 2.0


def test_cosine_rises_and_falls():
    learning_rates = rates(CosineWarmupDecay(2.0, warmup_steps=4, total_steps=12), 14)
    expected = [0.5, 1.0, 1.5, 2.0]
    expected += [1 + math.cos(math.pi * step / 8) for step in range(9)] + [0.0]
    np.testing.assert_allclose(learning_rates, expected, atol=1e-6)


@pytest.mark.parametrize("warmup_steps", [2, 6])
def test_one_cycle_equals_pytorch(warmup_steps):
    total_steps = 20
    parameter = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        parameter, 2.0, total_steps=total_steps, pct_start=warmup_steps / total_steps
    )
    expected = []
    for _ in range(total_steps):
        expected += theirs.get_last_lr()
        parameter.step(), theirs.step() if len(expected) < total_steps else None
    ours = OneCycle(2.0, warmup_steps, total_steps)
    np.testing.assert_allclose(rates(ours, total_steps), expected, atol=1e-6)
    assert float(ours(warmup_steps - 1)) == 2.0
    assert float(ours(10**6)) == pytest.approx(2 / 250_000, rel=1e-2)


def test_budget_is_a_function_of_the_time_used():
    schedule = TimeBudget(2.0, seconds=1000, warmup=0.2)
    used = [0, 1, 100, 200, 600, 1000, 1500]
    expected = [0.02, 0.02, 1.0, 2.0, 1.0, 0.0, 0.0]
    for seconds, rate in zip(used, expected, strict=True):
        schedule.used.assign(seconds)
        for step in (0, 7):  # not the current step
            assert float(schedule(step)) == pytest.approx(rate, abs=1e-6)


def test_a_run_ends_when_its_time_is_used_up():
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    schedule = TimeBudget(2.0, seconds=100, warmup=0.5)
    model.compile(keras.optimizers.SGD(schedule), "mse")
    ticks = iter([1000.0, 1025.0, 1050.0, 1104.0])  # the start, and the ends of three epochs
    learning_rates = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            learning_rates.append(float(self.model.optimizer.learning_rate))

    spends = SpendsBudget(schedule, clock=lambda: next(ticks))
    model.fit(np.ones((4, 1)), np.ones(4), epochs=9, verbose=0, callbacks=[spends, Watch()])
    assert learning_rates == pytest.approx([0.02, 1.0, 2.0])
    assert float(schedule.used) == 104.0


@pytest.mark.parametrize(
    "schedule",
    [
        LinearWarmupDecay(1e-3, 2, 9),
        CosineWarmupDecay(1e-3, 2, 9),
        OneCycle(1e-3, 2, 9),
        TimeBudget(1e-3, 60.0, 0.25),
    ],
)
def test_is_restored_from_its_configuration(schedule):
    schedules = keras.optimizers.schedules
    restored = schedules.deserialize(schedules.serialize(schedule))
    assert type(restored) is type(schedule)
    assert rates(restored, 9) == rates(schedule, 9)


def test_rejects_invalid_arguments():
    with pytest.raises(InputError, match="warmup_steps must be less than total_steps"):
        OneCycle(1e-3, 10, 10)
    with pytest.raises(InputError, match="seconds must be a positive number, got 0"):
        TimeBudget(1e-3, 0)
    for rate in (-1e-3, float("nan"), float("inf"), "1e-3"):
        for schedule in (LinearWarmupDecay, CosineWarmupDecay, OneCycle, TimeBudget):
            arguments = (60.0,) if schedule is TimeBudget else (2, 9)
            with pytest.raises(InputError, match="peak_learning_rate"):
                schedule(rate, *arguments)
    for seconds in (float("nan"), float("inf")):
        with pytest.raises(InputError, match="seconds"):
            TimeBudget(1e-3, seconds)
