"""Calibrates a saved model and updates the scores of its run."""

from pathlib import Path
from typing import Any

from keras_bert_impl.interop import OWN_SETTINGS
from keras_bert_impl.io.files import write_json
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.io.run_files import read_run_file, read_scores
from keras_bert_impl.runs.inputs import model_directory, with_metric_of
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.registry import score, task_of_examples
from keras_bert_impl.tasks.scores.calibration import Calibration, Goal
from keras_bert_impl.tuning.choice import save_tuned

# This key of scores.json compares the model with baselines, which need the training set.
_BEFORE = "Before calibration: "


def calibrate(
    model: TaskModel,
    examples: Any,
    directory: str | Path,
    goal: Goal = Goal(),
    base: str | Path | None = None,
) -> Calibration:
    """Calibrates a loaded model on labeled examples and saves it in `directory`.

    Args:
        directory: run or model directory of the model.
        base: see `load_tuned`.
    """
    path = local_path(model_directory(local_path(directory)))
    found = task_of_examples(examples).calibrate(model, examples, goal)
    own = read_json(path / "config.json").mapping(OWN_SETTINGS)
    if "base" in own:
        save_tuned(model, path, base or own.mapping("base").text("name"))
    else:
        model.save_pretrained(path)
    return found


def score_again(run: str | Path, model: TaskModel, examples: Any) -> dict[str, float]:
    """Replaces the scores and predictions of a run after its model was calibrated."""
    run = local_path(run)
    scores = score(model, with_metric_of(run, examples), run)
    write_json(run / "scores.json", read_scores(run / "scores.json") | scores)
    data = read_run_file(run / "data.json")
    sentences = data.mapping("verdict").list_of("sentences", str, [])
    if sentences:
        sentences = [_BEFORE + one.removeprefix(_BEFORE) for one in sentences]
        write_json(run / "data.json", data | {"verdict": {"sentences": sentences}})
    return scores
