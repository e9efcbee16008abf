"""The phases of a fine-tuning run, each with its own loss and optimizer."""

from typing import NamedTuple

from keras_bert_impl.tasks.runs.distillation import IntermediateLayers, RDrop, SoftTargets
from keras_bert_impl.tasks.runs.objective_settings import TINYBERT


class Phase(NamedTuple):
    """Consecutive epochs with the same objective.

    Attributes:
        start, end: int. First epoch of the phase, and the epoch after its last one.
        objective: see `ReplicatedTrainer`; None for the task's loss.
        name: str. Subfolder for its checkpoints in the run's checkpoint folder.
        is_scored: bool. Whether the model's predictions have meaningful metrics and loss.
    """

    start: int
    end: int
    objective: object = None
    name: str = ""
    is_scored: bool = True


def phases_of(settings, model, teacher=None):
    """Returns the phases of a run: one, or two with `distillation=tinybert`.

    Args:
        settings: `FinetuneSettings`.
        model: `TaskModel` to fine-tune.
        teacher: `TaskModel` that it learns from, or None.

    Returns:
        list of `Phase`.

    Raises:
        InputError: teacher and model do not match, or the model does not support the objective.
    """
    if teacher is None:
        objective = None if settings.r_drop is None else RDrop(model, settings.r_drop)
        return [Phase(0, settings.epochs, objective)]
    answers = SoftTargets(model, teacher, settings.temperature, settings.teacher_weight)
    if settings.distillation != TINYBERT:
        return [Phase(0, settings.epochs, answers)]
    layers, before = IntermediateLayers(model, teacher), settings.intermediate_epochs
    return [
        Phase(0, before, layers, name="intermediate", is_scored=False),
        Phase(before, before + settings.epochs, answers),
    ]
