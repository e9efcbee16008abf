"""Calibrates a saved model and updates the scores of its run."""

import shutil
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.interop import OWN_SETTINGS
from keras_bert_impl.data.scores.calibration import Calibration, Goal
from keras_bert_impl.runs.inputs import model_directory, with_metric_of
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.registry import score, task_of_examples
from keras_bert_impl.training.tuning.choice import save_tuned
from keras_bert_impl.utils.io.files import replace_directory, write_json
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.reading import read_json
from keras_bert_impl.utils.io.run_files import read_run_file, read_scores

# This key of scores.json compares the model with baselines, which need the training set.
_BEFORE = "Before calibration: "


def calibrate(
    model: TaskModel,
    examples: Any,
    directory: str | Path,
    goal: Goal = Goal(),
    base: str | Path | None = None,
    run_examples: Any = None,
) -> Calibration:
    """Calibrates a loaded model on labeled examples and saves it in `directory`.

    Args:
        directory: run or model directory of the model.
        base: see `load_tuned`.
        run_examples: validation set of the run. If given, the scores and predictions of the run are
            replaced together with the model.
    """
    directory = local_path(directory)
    path = local_path(model_directory(directory))
    calibration = task_of_examples(examples).calibrate(model, examples, goal)
    if run_examples is None:
        _save(model, path, base)
        return calibration
    scored = with_metric_of(directory, run_examples)
    scores, data = read_scores(directory / "scores.json"), read_run_file(directory / "data.json")
    sentences = data.mapping("verdict").list_of("sentences", str, [])
    with replace_directory(directory) as temporary:
        shutil.copytree(path, temporary / "model", symlinks=True)
        _save(model, temporary / "model", base)
        write_json(temporary / "scores.json", scores | score(model, scored, temporary))
        if sentences:
            sentences = [_BEFORE + sentence.removeprefix(_BEFORE) for sentence in sentences]
            write_json(temporary / "data.json", data | {"verdict": {"sentences": sentences}})
    return calibration


def _save(model, path, base):
    settings = read_json(path / "config.json").mapping(OWN_SETTINGS)
    if "base" in settings:
        save_tuned(model, path, base or settings.mapping("base").text("name"))
    else:
        model.save_pretrained(path)
