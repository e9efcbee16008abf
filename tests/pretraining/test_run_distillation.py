"""Runs with a teacher: resuming, output files, and rejected settings."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.conversion.formats import student_of
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.objectives import MaskedLM
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.run import pretrain
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.helpers import newest_checkpoint
from tests.pretraining.test_run import Stop, settings_of, weights


def write_teacher(path, tokenizer, **changes):
    sizes = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32} | changes
    config = EncoderConfig(tokenizer.vocabulary_size, max_length=32, **sizes)
    Pretrainer(Encoder(config), [MaskedLM()]).save_pretrained(path, tokenizer)
    return path


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, tokenizer):
    return write_teacher(tmp_path_factory.mktemp("teacher"), tokenizer)


@pytest.fixture
def settings(teacher, tmp_path):
    """Settings of a run from one of the teacher's two layers."""
    student_of(teacher, tmp_path / "student", layers=1)
    return settings_of(tmp_path / "student") | {"teacher": str(teacher), "total_steps": 4}


@pytest.mark.slow  # test_run has a faster one without a teacher
@pytest.mark.parametrize(
    ("objective", "outputs"),
    [
        ("distillation", ["masked_lm", "distilled_words", "distilled_states"]),
        ("layer_distillation", ["distilled_layers", "distilled_attention"]),
    ],
)
def test_interrupted_run_reaches_the_same_weights(
    objective, outputs, records_directory, tmp_path, settings
):
    settings |= {"objectives": [objective]}
    whole = pretrain(records_directory, tmp_path / "one", **settings)
    with pytest.raises(KeyboardInterrupt):
        pretrain(records_directory, tmp_path / "two", callbacks=[Stop(4)], **settings)
    resumed = pretrain(records_directory, tmp_path / "two", **settings)
    np.testing.assert_array_equal(weights(whole), weights(resumed))
    scores = json.loads((tmp_path / "one" / "scores.json").read_text())
    losses = [f"{name}_loss" for name in outputs]
    accuracies = ["masked_lm_accuracy"] if objective == "distillation" else []
    names = {"loss", *losses, *accuracies}
    assert set(scores) == names | {f"before/{name}" for name in names}
    # Checkpoints hold the student's variables, two optimizer slots for each, and nothing else.
    newest = newest_checkpoint(tmp_path / "one" / "checkpoints")
    shapes = tf.train.load_checkpoint(newest).get_variable_to_shape_map()
    saved = [name for name in shapes if name.startswith("variables/")]
    count = len(whole.variables) + len(whole.optimizer.variables)
    assert count <= len(saved) <= count + 2  # plus the spike guard's
    encoder = Encoder.from_pretrained(tmp_path / "one" / "model")
    for ours, theirs in zip(whole.encoder.get_weights(), encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_wider_teacher_with_memory_saving_options(records_directory, tmp_path, tokenizer):
    """Checkpoints include the linear maps, so a resumed run has them."""
    wide = write_teacher(tmp_path / "wide", tokenizer, hidden_dim=24, num_layers=4)
    student = write_teacher(tmp_path / "student", tokenizer)
    settings = settings_of(student) | {
        "teacher": str(wide),
        "objectives": ["layer_distillation"],
        "remat": True,
        "accumulation_steps": 2,
        "dtype": "mixed_bfloat16",
    }
    whole = pretrain(records_directory, tmp_path / "one", **settings)
    with pytest.raises(KeyboardInterrupt):
        pretrain(records_directory, tmp_path / "two", callbacks=[Stop(4)], **settings)
    resumed = pretrain(records_directory, tmp_path / "two", **settings)
    np.testing.assert_array_equal(weights(whole), weights(resumed))


def test_rejects_invalid_arguments(records_directory, tmp_path, settings, tokenizer):
    def refused(message, **changes):
        with pytest.raises(InputError, match=message):
            pretrain(records_directory, tmp_path / "run", **settings | changes)

    refused("teacher is only for the objectives distillation and layer_distillation")
    refused("set teacher=DIR", objectives=["distillation"], teacher=None)
    vocabulary = [*tokenizer.vocabulary[:-1], "other"]
    other_teacher = write_teacher(tmp_path / "other", WordPieceTokenizer(vocabulary))
    refused(
        "not prepared with the tokenizer of the teacher",
        objectives=["distillation"],
        teacher=str(other_teacher),
    )
    assert not (tmp_path / "run").exists()
