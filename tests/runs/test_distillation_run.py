"""Runs with a teacher: phases, files, and resuming after an interruption."""

import contextlib
import io
import json

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.cli.main import main
from keras_bert_impl.runs.phases import phases_of
from keras_bert_impl.tasks import (
    ChoiceExamples,
    Examples,
    FinetuneSettings,
    RDrop,
    TextClassifier,
    finetune,
    load_tuned,
)
from keras_bert_impl.utils.errors import InputError
from tests.helpers import newest_checkpoint
from tests.tasks.helpers import encoder, examples, tokenizer

TRAIN, DEV = (Examples(*examples(count=24, seed=seed), source=f"set {seed}") for seed in (0, 1))
LABELS = ["negative", "positive"]
SETTINGS = {"batch_size": 8, "learning_rate": 1e-3, "max_length": 16}
TINYBERT = SETTINGS | {
    "distillation": "tinybert",
    "intermediate_epochs": 2,
    "epochs": 2,
    "learning_rate": 1e-2,
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A wider model trained on the task with swapped labels."""
    directory = tmp_path_factory.mktemp("teacher")
    parts = encoder(hidden_dim=24, num_layers=2, dropout=0.0)
    model = TextClassifier(parts, tokenizer(), labels=LABELS)
    model.compile(keras.optimizers.Adam(1e-2))
    texts, labels = examples(count=40)
    swapped = [LABELS[label == "negative"] for label in labels]
    model.fit(texts, swapped, epochs=15, batch_size=8, verbose=0)
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def run(base, teacher, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "run"
    settings = TINYBERT | {"teacher": str(teacher), "keep_checkpoints": True}
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        finetune(base, TRAIN, DEV, directory, verbose=2, **settings)
    assert "training: 4 epochs of 3 steps of 8 examples" in printed.getvalue()
    return directory


def saved_weights(run):
    return safetensors.numpy.load_file(run / "model" / "model.safetensors")


@pytest.mark.slow
def test_tinybert_learns_from_layers_then_from_predictions(run):
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [3, 6, 9, 12]
    assert metrics[1]["loss"] < metrics[0]["loss"]
    assert ["val_accuracy" in line for line in metrics] == [False, False, True, True]
    # The learning rate completes its schedule in each phase.
    assert metrics[1]["learning_rate"] == metrics[3]["learning_rate"] == 0


@pytest.mark.slow
def test_saved_model_contains_neither_teacher_nor_maps(run, base, tmp_path):
    untuned = TextClassifier.from_pretrained(base, labels=LABELS)
    untuned.save_pretrained(tmp_path / "model")
    assert saved_weights(run).keys() == saved_weights(tmp_path).keys()
    model = load_tuned(run)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(run / "model").eval()
    features = tokenizer()(DEV.texts)
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor(features["token_ids"].numpy()),
            attention_mask=torch.tensor(features["padding_mask"].numpy()),
        ).logits
    np.testing.assert_allclose(model(features), logits, atol=1e-5)


@pytest.mark.slow
def test_only_checkpoints_of_the_first_phase_contain_the_maps(run, base):
    shapes = []
    for folder in ("checkpoints/intermediate", "checkpoints"):
        reader = tf.train.load_checkpoint(newest_checkpoint(run / folder))
        variable_shapes = reader.get_variable_to_shape_map()
        shapes.append([tuple(s) for n, s in variable_shapes.items() if n.startswith("variables/")])
    # Two maps from 16 to 24, with two optimizer slots each; no other variable has width 24.
    wide = [[shape for shape in part if 24 in shape] for part in shapes]
    assert wide == [[(16, 24)] * 6, []]


class Stop(keras.callbacks.Callback):
    """Interrupts training in the middle of an epoch."""

    def __init__(self, epoch):
        super().__init__()
        self.at, self.now = epoch, None

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.now, batch) == (self.at, 1):
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("epoch, minutes", [(1, 1e-9), (2, 10.0), (3, 1e-9)])
def test_interrupted_run_gives_the_same_result(run, base, teacher, tmp_path, epoch, minutes):
    settings = TINYBERT | {"teacher": str(teacher), "verbose": 0, "checkpoint_minutes": minutes}
    with pytest.raises(KeyboardInterrupt):
        finetune(base, TRAIN, DEV, tmp_path / "run", callbacks=[Stop(epoch)], **settings)
    assert not (tmp_path / "run" / "model").exists()
    finetune(base, TRAIN, DEV, tmp_path / "run", **settings)
    expected = saved_weights(run)
    for name, tensor in saved_weights(tmp_path / "run").items():
        np.testing.assert_array_equal(tensor, expected[name])
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert steps == [3, 6, 9, 12]


@pytest.mark.slow
def test_teacher_with_full_weight_overrides_the_labels(base, teacher, tmp_path, capsys):
    """The teacher learned swapped labels and has a weight of 1, so the student learns them too."""
    rows = [f"{text},{label}\n" for text, label in zip(TRAIN.texts, TRAIN.labels)]
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(rows))
    command = ["finetune", "--model", base, "--text", "text", "--label", "label"]
    for option, name in (("train", "texts.csv"), ("dev", "texts.csv"), ("out", "run")):
        command += [f"--{option}", tmp_path / name]
    settings = [f"--teacher={teacher}", "--teacher-weight=1.0", "--epochs=30", "--batch-size=8"]
    settings += ["--learning-rate=1e-2", "--dropout=0.0"]
    assert main([*map(str, command), "--json", *settings]) == 0
    # The dev labels are not swapped.
    assert json.loads(capsys.readouterr().out)["accuracy"] < 0.35


def test_r_drop_is_a_setting(base):
    model = TextClassifier.from_pretrained(base, labels=LABELS)
    (phase,) = phases_of(FinetuneSettings(r_drop=2.0, epochs=4), model)
    assert (phase.start, phase.end, phase.name) == (0, 4, "")
    assert isinstance(phase.objective, RDrop)


def test_rejects_other_tasks_before_writing_anything(base, teacher, tmp_path):
    choices = ChoiceExamples([("the film is", ["good", "bad"])] * 2, [0, 1])
    for settings in ({"teacher": str(teacher)}, {"r_drop": 1.0}):
        with pytest.raises(
            InputError, match="supports only TextClassifier, and TokenClassifier without a CRF"
        ):
            finetune(base, choices, choices, tmp_path / "run", verbose=0, **SETTINGS | settings)
    assert not (tmp_path / "run").exists()
