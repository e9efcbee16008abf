"""LAMB against the paper's equations."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.training.optimizers.lamb import LAMB
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay
from tests.training.helpers import dataset, distance, train

STEPS, RATE, DECAY, EPSILON = 20, 1e-2, 0.1, 1e-3
NAMES = ("kernel", "bias")


def start_and_gradients(seed=0):
    draw = np.random.default_rng(seed)
    start = {"kernel": draw.normal(size=(7, 5)), "bias": draw.normal(size=5)}
    shapes = {name: value.shape for name, value in start.items()}
    gradients = [{name: draw.normal(size=shapes[name]) for name in NAMES} for _ in range(STEPS)]
    return start, gradients


def paper(start, gradients, bias_correction, adapted=("kernel",)):
    """Algorithm 2 of You et al. 2020 in float64, without its bounds on the norms."""
    weights = dict(start)
    m = {name: 0.0 for name in NAMES}
    v = {name: 0.0 for name in NAMES}
    for step, gradient in enumerate(gradients, 1):
        for name in NAMES:
            m[name] = 0.9 * m[name] + 0.1 * gradient[name]
            v[name] = 0.999 * v[name] + 0.001 * gradient[name] ** 2
            m_hat = m[name] / (1 - 0.9**step) if bias_correction else m[name]
            v_hat = v[name] / (1 - 0.999**step) if bias_correction else v[name]
            update = m_hat / (np.sqrt(v_hat) + EPSILON)
            ratio = 1.0
            if name in adapted:
                update = update + DECAY * weights[name]
                ratio = np.linalg.norm(weights[name]) / np.linalg.norm(update)
            weights[name] = weights[name] - RATE * ratio * update
    return weights


def run(optimizer, start, gradients, jit_compile=False, dtype="float32"):
    variables = [keras.Variable(start[name], name=name, dtype=dtype) for name in NAMES]
    optimizer.build(variables)
    step = tf.function(
        lambda gradient: optimizer.apply(gradient, variables),
        autograph=False,
        jit_compile=jit_compile,
    )
    for gradient in gradients:
        step([tf.constant(gradient[name], dtype) for name in NAMES])
    return {name: variable.numpy() for name, variable in zip(NAMES, variables, strict=True)}


def lamb(**settings):
    return LAMB(RATE, weight_decay=DECAY, epsilon=EPSILON, **settings)


def check(ours, expected):
    for name in NAMES:
        # As for AdamW: two roundings per step of weights up to 4; float32's 1 - 0.999 is off by
        # 1.3e-5, and half of that affects steps of up to RATE * 3.2. The trust ratio is below 1 for
        # steps of that size, and rounding of its norms adds 1e-6 of a step.
        tolerance = STEPS * (2 * 2.4e-7 + 0.65e-5 * RATE * 3.2)
        np.testing.assert_allclose(ours[name], expected[name], rtol=0, atol=tolerance)


@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("jit_compile", [True, False])
def test_equals_the_paper(bias_correction, jit_compile):
    start, gradients = start_and_gradients()
    ours = run(lamb(bias_correction=bias_correction), start, gradients, jit_compile)
    check(ours, paper(start, gradients, bias_correction))


def test_decayed_variables_are_adapted():
    start, gradients = start_and_gradients()
    check(run(lamb(not_decayed=[]), start, gradients), paper(start, gradients, True, NAMES))


def test_step_is_proportional_to_the_norm():
    start, gradients = start_and_gradients()
    moved = run(lamb(rates=[("kernel", 3.0)]), start, gradients[:1])["kernel"] - start["kernel"]
    expected = 3.0 * RATE * np.linalg.norm(start["kernel"])
    assert np.linalg.norm(moved) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("start", [0.0, 1.0])
@pytest.mark.parametrize("gradient", [0.0, 1.0])
def test_zero_norms_do_not_scale_the_step(start, gradient):
    variable = keras.Variable(np.full(4, start), name="kernel")
    optimizer = LAMB(0.25, weight_decay=0.0, epsilon=1e-6)
    optimizer.build([variable])
    optimizer.apply([tf.fill([4], gradient)], [variable])
    np.testing.assert_allclose(variable.numpy(), start - 0.25 * gradient, rtol=1e-5)


def test_weights_in_bfloat16_move():
    start = {"kernel": np.ones((2, 2)), "bias": np.ones(2)}
    gradients = [{name: np.ones_like(start[name]) for name in NAMES}]
    optimizer = LAMB(0.25, weight_decay=0.0)
    for value in run(optimizer, start, gradients, dtype="bfloat16").values():
        np.testing.assert_allclose(value.astype("float32"), 0.75, atol=2**-7)


def test_is_restored_from_its_configuration():
    optimizer = LAMB(LinearWarmupDecay(1e-3, 2, 9), bias_correction=False, rates=[("kernel", 2.0)])
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(restored, LAMB)
    assert restored.get_config() == optimizer.get_config()


@pytest.mark.slow
def test_two_replicas_reach_the_weights_of_one_device():
    def optimizer():
        return LAMB(1e-2, weight_decay=0.1, epsilon=1e-3, global_clipnorm=0.5)

    data = dataset(batch_size=16, count=41)
    single, _ = train(1, data=data, epochs=1, optimizer=optimizer)
    two, _ = train(2, data=data, epochs=1, optimizer=optimizer)
    # Rounding as in the step tests, times the trust ratio: no weight's norm exceeds 10 times that
    # of its update.
    assert distance(single, two) < 1e-5
