"""The phases of a fine-tuning run: consecutive epochs, each phase with its own objective."""

from typing import Any, NamedTuple

from keras_bert_impl.runs.distillation import IntermediateLayers, RDrop, SoftTargets
from keras_bert_impl.runs.settings import TINYBERT, FinetuneSettings
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.training.runs.run_directory import INTERMEDIATE


class Phase(NamedTuple):
    """Consecutive epochs with the same objective, each phase with its own optimizer.

    Attributes:
        start, end: first epoch of the phase, and the epoch after its last one.
        objective: see `ReplicatedTrainer`; None for the task's loss.
        name: subfolder for its checkpoints in the run's checkpoint folder.
        is_scored: whether the model's predictions have meaningful metrics and loss.
    """

    start: int
    end: int
    objective: Any = None
    name: str = ""
    is_scored: bool = True


def phases_of(
    settings: FinetuneSettings, model: TaskModel, teacher: TaskModel | None = None
) -> list[Phase]:
    """Returns the phases of a run: one, or two with `distillation=tinybert`."""
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
