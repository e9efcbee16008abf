"""Scores of the development set after each epoch, for `keep_best`."""

import functools
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tasks.scores.metrics import comparable
from keras_bert_impl.training.runs.checkpoints import KEY, BestEpoch
from keras_bert_impl.training.runs.reports import read_metrics
from keras_bert_impl.training.strategy import is_chief, num_workers, number_of_chief


def best_epoch(
    settings: FinetuneSettings, task: Task, model: TaskModel, dev: LabeledExamples, start: int
) -> BestEpoch | None:
    """Returns the `BestEpoch` of a run by the first of the scores on `dev`; None without `keep_best`."""
    if not settings.keep_best:
        return None

    def score(scored):
        return comparable(*next(iter(task.finish(scored, dev).items())))

    if num_workers() < 2:
        first_score = functools.partial(score, model)
    else:
        first_score = _score_of_chief(score, model)
    return BestEpoch(first_score, settings.patience, start=start)


def _score_of_chief(score, model):
    """Creates a function that scores a model on the chief and returns its score on all workers."""
    # Built outside the strategy, in which the chief cannot predict while the others wait.
    alone = type(model).from_config(model.get_config()) if is_chief() else None

    def of_chief():
        value = 0.0
        if alone is not None:
            alone.set_weights(model.get_weights())
            value = score(alone)
        return number_of_chief(model.distribute_strategy, value)

    return of_chief


def read_scores(metrics: Path, start: int, finished: int, steps: int) -> list[float]:
    """Reads the scores of epochs `start` to `finished` from `metrics.jsonl`."""
    scores = [line[KEY] for line in read_metrics(metrics, finished * steps) if KEY in line]
    if len(scores) != finished - start:
        raise InputError(
            f"{metrics} has the scores of {len(scores)} epochs, but {finished - start} are done. "
            f"Remove {metrics.parent} to start over."
        )
    return scores
