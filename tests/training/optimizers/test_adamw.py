import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.lamb import LAMB
from keras_bert_impl.training.optimizers.schedules import LinearWarmupDecay
from keras_bert_impl.utils.errors import InputError
from tests.training import fit_on_backend
from tests.training.helpers import result_of, start

STEPS = 20


def gradients_and_start():
    draw = np.random.default_rng(0)
    shapes = [(7, 5), (5,)]
    start_values = [draw.normal(size=shape).astype("float32") for shape in shapes]
    gradients = [
        [
            (draw.normal(size=shape) * 10.0 ** draw.integers(-3, 1)).astype("float32")
            for shape in shapes
        ]
        for _ in range(STEPS)
    ]
    return start_values, gradients


def run(optimizer, start_values, gradients):
    variables = [
        keras.Variable(value, name=name)
        for value, name in zip(start_values, ("kernel", "bias"), strict=True)
    ]
    optimizer.build(variables)
    step = tf.function(lambda gradient: optimizer.apply(gradient, variables), autograph=False)
    for each in gradients:
        step([tf.constant(gradient) for gradient in each])
    return [variable.numpy() for variable in variables]


def test_equals_pytorch_with_clipping_and_schedule():
    start_values, gradients = gradients_and_start()
    schedule = LinearWarmupDecay(1e-2, 5, STEPS + 5)
    ours = run(AdamW(schedule, weight_decay=0.1, global_clipnorm=0.5), start_values, gradients)

    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in start_values]
    theirs = torch.optim.AdamW(
        [
            {"params": parameters[:1], "weight_decay": 0.1},
            {"params": parameters[1:], "weight_decay": 0.0},
        ],
        eps=1e-6,
    )
    for step, each in enumerate(gradients):
        for parameter, gradient in zip(parameters, each, strict=True):
            parameter.grad = torch.tensor(gradient)
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        for group in theirs.param_groups:
            group["lr"] = float(schedule(step))
        theirs.step()

    # Each implementation rounds weights up to 4 twice a step, by at most 4 * 2**-24: 20 * 2 * 2 *
    # 2.4e-7. PyTorch also clips to norm / (norm + 1e-6), which changes m / sqrt(v) by a relative
    # 2e-6, and the weights by 2e-6 * 20 * 1e-2.
    for mine, parameter in zip(ours, parameters, strict=True):
        np.testing.assert_allclose(mine, parameter.detach().numpy(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("bias_correction", [True, False])
def test_equals_the_published_algorithm(bias_correction):
    start_values, gradients = gradients_and_start()
    optimizer = AdamW(1e-2, weight_decay=0.1, epsilon=1e-3, bias_correction=bias_correction)
    ours = run(optimizer, start_values, gradients)
    for index, decay in enumerate((0.1, 0.0)):
        weight = start_values[index].astype("float64")
        m = v = np.zeros_like(weight)
        for step in range(STEPS):
            gradient = gradients[step][index].astype("float64")
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * gradient**2
            m_hat = m / (1 - 0.9 ** (step + 1)) if bias_correction else m
            v_hat = v / (1 - 0.999 ** (step + 1)) if bias_correction else v
            weight = weight - 1e-2 * (m_hat / (np.sqrt(v_hat) + 1e-3) + decay * weight)
        # Two roundings per step of weights up to 4 (4 * 2**-24 each). Also, float32's 1 - 0.999 is
        # off by 1.3e-5, and half of that affects steps of up to 0.1 / sqrt(0.001) learning rates.
        tolerance = STEPS * (2 * 2.4e-7 + 0.65e-5 * 1e-2 * 3.2)
        np.testing.assert_allclose(ours[index], weight, rtol=0, atol=tolerance)


LATE = [
    [None, None, 0.7, -0.2, None, 0.5],  # starts late, frozen for a step
    [0.3, 0.1, 0.2, 0.4, 0.1, -0.6],
    [0.0, 0.0, 0.0, 0.9, 0.0, 0.5],  # zero gradients count
]


@pytest.mark.parametrize("optimizer", [AdamW, LAMB])
@pytest.mark.parametrize("way", ["none", "left out"])
def test_bias_is_corrected_by_the_steps_of_each_variable(optimizer, way):
    start_values = [np.full((2,), value, "float32") for value in (0.5, -0.3, 0.8)]
    # Without decay and trust ratios, LAMB equals AdamW.
    ours = optimizer(1e-2, weight_decay=0.0, epsilon=1e-8, not_decayed=[""])
    variables = [keras.Variable(value, name="kernel") for value in start_values]
    ours.build(variables)
    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in start_values]
    theirs = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.0)
    for gradients in zip(*LATE, strict=True):
        pairs = [
            (None if gradient is None else tf.fill([2], gradient), variable)
            for gradient, variable in zip(gradients, variables, strict=True)
            if way == "none" or gradient is not None
        ]
        ours.apply(*map(list, zip(*pairs, strict=True)))
        for gradient, parameter in zip(gradients, parameters, strict=True):
            parameter.grad = None if gradient is None else torch.full((2,), gradient)
        theirs.step()
        for mine, parameter in zip(variables, parameters, strict=True):
            # Six steps of 1e-2; float32's beta_2 of 0.999 is off by 1.3e-5, and half of that
            # affects a step.
            np.testing.assert_allclose(mine.numpy(), parameter.detach(), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.steps.numpy(), [3, 6, 6])


def test_late_variable_starts_at_the_learning_rate():
    late, early = keras.Variable([0.0], name="late"), keras.Variable([0.0], name="other")
    optimizer = AdamW(1e-3, weight_decay=0.0)
    optimizer.build([early, late])
    for _ in range(100):
        optimizer.apply([tf.constant([1.0])], [early])
    optimizer.apply([tf.constant([1.0])] * 2, [early, late])
    assert late.numpy()[0] == pytest.approx(-1e-3, rel=1e-4)


@pytest.mark.parametrize("beta_1, beta_2", [(0.0, 0.999), (0.9, 0.0), (0.0, 0.0)])
def test_betas_of_zero_equal_pytorch(beta_1, beta_2):
    start_values, _ = gradients_and_start()
    # Gradients of similar size: added to a square of 1, one of 1e-6 keeps two digits in float32.
    draw = np.random.default_rng(0)
    gradients = [
        [draw.uniform(0.5, 1, value.shape).astype("float32") for value in start_values]
        for _ in range(STEPS)
    ]
    optimizer = AdamW(1e-2, weight_decay=0.0, beta_1=beta_1, beta_2=beta_2, epsilon=1e-3)
    ours = run(optimizer, start_values, gradients)
    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in start_values]
    theirs = torch.optim.AdamW(
        parameters, lr=1e-2, weight_decay=0.0, betas=(beta_1, beta_2), eps=1e-3
    )
    for each in gradients:
        for parameter, gradient in zip(parameters, each, strict=True):
            parameter.grad = torch.tensor(gradient)
        theirs.step()
    for mine, parameter in zip(ours, parameters, strict=True):
        np.testing.assert_allclose(mine, parameter.detach().numpy(), rtol=0, atol=2e-5)


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("optimizer", [AdamW, LAMB])
@pytest.mark.parametrize(
    "name, values",
    [
        ("learning_rate", [-1e-3, NAN, INFINITE, "1e-3", None, True]),
        ("weight_decay", [-0.1, NAN, INFINITE, "0.1"]),
        ("beta_1", [-0.1, 1.0, 1.5, NAN, 1 - 1e-9, None]),
        ("beta_2", [-0.1, 1.0, 1.5, NAN, 1 - 1e-9, None]),
        ("epsilon", [0.0, -1e-8, NAN, INFINITE, 1e-50, None]),
        ("global_clipnorm", [0.0, -1.0, NAN]),
        ("clipnorm", [0.0, -1.0, NAN]),
        ("clipvalue", [0.0, -1.0, NAN]),
        ("ema_momentum", [-0.1, 1.1, NAN]),
        ("rates", [[("kernel", -1.0)], [("kernel", NAN)], [("(", 1.0)], [("kernel",)], ["ab"], 3]),
        ("not_decayed", ["(", [3], 3]),
        ("bias_correction", ["false", None, 0]),
    ],
)
def test_rejects_invalid_hyperparameters(optimizer, name, values):
    for value in values:
        with pytest.raises(InputError, match=name):
            optimizer(**{name: value})


def test_accepts_any_number_type():
    optimizer = AdamW(np.float32(0.5), weight_decay=np.int64(0), beta_1=0, not_decayed="bias")
    assert float(optimizer.learning_rate) == 0.5
    assert optimizer.not_decayed == ("bias",)
    assert AdamW(1).get_config()["learning_rate"] == 1.0


def test_epsilon_is_added_after_the_correction():
    # m_hat = gradient and sqrt(v_hat) = gradient, so the step is 1e-6 / (1e-6 + 1e-6) of the rate.
    # With epsilon added before the correction it would be 0.03 of the rate.
    (weight,) = run_one(AdamW(0.5, weight_decay=0.0, epsilon=1e-6), gradient=1e-6)
    np.testing.assert_allclose(weight, 1 - 0.25, rtol=1e-5)


def run_one(optimizer, gradient, dtype="float32", name="kernel"):
    variable = keras.Variable(np.ones(1), name=name, dtype=dtype)
    optimizer.build([variable])
    optimizer.apply([tf.constant([gradient], dtype)], [variable])
    return variable.numpy().astype("float32")


@pytest.mark.parametrize("name", ["bias", "gamma", "beta", "kernel", "token_embeddings"])
def test_decays_all_but_biases_and_normalization(name):
    (weight,) = run_one(AdamW(0.1, weight_decay=0.5), gradient=0.0, name=name)
    decayed = name in ("kernel", "token_embeddings")
    assert weight == pytest.approx(1 - 0.1 * 0.5 if decayed else 1.0, abs=1e-7)


def test_not_decayed_is_configurable():
    (weight,) = run_one(AdamW(0.1, weight_decay=0.5, not_decayed=[]), gradient=0.0, name="bias")
    assert weight == pytest.approx(0.95, abs=1e-7)


def test_weights_in_bfloat16_move():
    # 1 - 0.25 is exact in bfloat16. With a beta rounded to 1, the moments would not change.
    (weight,) = run_one(AdamW(0.25, weight_decay=0.0), gradient=1.0, dtype="bfloat16")
    assert weight == pytest.approx(0.75, abs=2**-7)


def test_is_restored_from_its_configuration():
    optimizer = AdamW(
        LinearWarmupDecay(1e-3, 2, 9), weight_decay=0.2, bias_correction=False, global_clipnorm=2.0
    )
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(restored, AdamW)
    assert restored.get_config() == optimizer.get_config()
    start_values, gradients = gradients_and_start()
    for mine, theirs in zip(
        run(optimizer, start_values, gradients), run(restored, start_values, gradients), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_jax_trains_to_the_same_weights(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    jax = result_of(start("fit_on_backend.py"))
    tensorflow = fit_on_backend.run()
    assert not jax["imported"]
    np.testing.assert_allclose(jax["loss"], tensorflow["loss"], rtol=2e-6)
    for received, expected in zip(jax["weights"], tensorflow["weights"], strict=True):
        # Three steps of at most 0.1; gradients near rounding size would be amplified by 1e5.
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-6)


def test_rates_equal_pytorch_parameter_groups():
    start_values, gradients = gradients_and_start()
    schedule = LinearWarmupDecay(1e-2, 5, STEPS + 5)
    rates = [("kern", 0.25), ("kernel", 7.0), ("bias", 3.0)]  # the first match applies
    optimizer = AdamW(schedule, weight_decay=0.1, not_decayed=[], rates=rates)
    optimizer = AdamW.from_config(optimizer.get_config())
    ours = run(optimizer, start_values, gradients)

    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in start_values]
    theirs = torch.optim.AdamW([{"params": [p]} for p in parameters], weight_decay=0.1, eps=1e-6)
    for step, each in enumerate(gradients):
        for parameter, gradient in zip(parameters, each, strict=True):
            parameter.grad = torch.tensor(gradient)
        for group, factor in zip(theirs.param_groups, (0.25, 3.0)):
            group["lr"] = factor * float(schedule(step))
        theirs.step()
    for a, b in zip(ours, parameters, strict=True):
        # Rounding as above.
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=0, atol=2e-5)


def test_the_state_is_restored():
    optimizer, variables = AdamW(1e-3), [keras.Variable([1.0]), keras.Variable([2.0])]
    optimizer.build(variables)
    for _ in range(3):
        optimizer.apply([tf.constant([1.0])], variables[:1])
    state, restored = {}, AdamW(1e-3)
    optimizer.save_own_variables(state)
    restored.build(variables)
    restored.load_own_variables(state)
    for mine, theirs in zip(optimizer.variables, restored.variables, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
