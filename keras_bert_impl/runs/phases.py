"""Phases of a fine-tuning run, and selection of the best epoch (`keep_best`)."""

import functools
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from keras_bert_impl.data.scores.metrics import comparable
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.runs.distillation import IntermediateLayers, RDrop, SoftTargets
from keras_bert_impl.runs.settings import TINYBERT, FinetuneSettings
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.training.runs.checkpoints import BestEpoch
from keras_bert_impl.training.runs.reports import KEY, read_metrics
from keras_bert_impl.training.runs.run_directory import INTERMEDIATE
from keras_bert_impl.training.strategy import is_chief, num_workers, number_of_chief
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.settings import OneOf, check


class Phase(NamedTuple):
    """Consecutive epochs of a run with one objective and one optimizer.

    Attributes:
        start, end: the phase consists of the epochs in `range(start, end)`.
        objective: see `ReplicatedTrainer`; None for the task's loss.
        name: subfolder for the checkpoints.
        is_scored: whether the task's loss and metrics are computed.
    """

    start: int
    end: int
    objective: Any = None
    name: str = ""
    is_scored: bool = True


def phases_of(
    settings: FinetuneSettings, model: TaskModel, teacher: TaskModel | None = None
) -> list[Phase]:
    """Returns the phases of a run: two for `distillation=tinybert`, otherwise one."""
    if teacher is None:
        objective = None if settings.r_drop is None else RDrop(model, settings.r_drop)
        return [Phase(0, settings.epochs, objective)]
    soft = SoftTargets(model, teacher, settings.temperature, settings.teacher_weight)
    if settings.distillation != TINYBERT:
        return [Phase(0, settings.epochs, soft)]
    layers, before = IntermediateLayers(model, teacher), settings.intermediate_epochs
    return [
        Phase(0, before, layers, name=INTERMEDIATE, is_scored=False),
        Phase(before, before + settings.epochs, soft),
    ]


def metric_of(
    settings: FinetuneSettings, task: Task, train: LabeledExamples, dev: LabeledExamples
) -> str | None:
    """Returns the name of the score that compares runs. None means the task's first score."""
    if settings.metric is None:
        return task.default_metric(train)
    return check("metric", settings.metric, Annotated[str, OneOf(*task.score_names(dev))])


def metric_first(scores: dict[str, float], metric: str | None) -> dict[str, float]:
    return scores if metric is None else {metric: scores[metric], **scores}


def best_epoch(
    settings: FinetuneSettings,
    task: Task,
    model: TaskModel,
    dev: LabeledExamples,
    start: int,
    metric: str | None = None,
) -> BestEpoch | None:
    """Returns the callback that keeps the epoch with the best score on `dev`.

    Returns None if `keep_best` is false.
    """
    if not settings.keep_best:
        return None

    name = metric or task.score_names(dev)[0]

    def score(scored):
        return task.finish(scored, dev)[name]

    if num_workers() < 2:
        first_score = functools.partial(score, model)
    else:
        first_score = _score_of_chief(score, model)
    rank = functools.partial(comparable, name)
    return BestEpoch(first_score, settings.patience, start=start, metric=name, rank=rank)


def _score_of_chief(score, model):
    """Returns a function that computes the score on the chief and broadcasts it to all workers."""
    # This model is outside of the strategy, because only the chief predicts.
    alone = type(model).from_config(model.get_config()) if is_chief() else None

    def of_chief():
        value = 0.0
        if alone is not None:
            alone.set_weights(model.get_weights())
            value = score(alone)
        return number_of_chief(model.distribute_strategy, value)

    return of_chief


def scores_of_epochs(metrics: Path, start: int, finished: int, steps: int) -> list[float]:
    scores = [line[KEY] for line in read_metrics(metrics, finished * steps) if KEY in line]
    if len(scores) != finished - start:
        raise InputError(
            f"{metrics} has the scores of {len(scores)} epochs, but {finished - start} are "
            f"finished. Restore {metrics.name}, or choose another directory for a new run."
        )
    return scores
