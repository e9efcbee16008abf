"""The parts of a fine-tuning run, one after the other, each with its own loss and optimizer."""

from typing import NamedTuple

from keras_bert_impl.tasks.runs.distillation import IntermediateLayers, RDrop, SoftTargets
from keras_bert_impl.tasks.runs.objective_settings import TINYBERT


class Phase(NamedTuple):
    """Epochs that are trained in one way.

    Attributes:
        start, end: int. From which to before which epoch of the run.
        objective: as of `ReplicatedTrainer`; None for the task's loss.
        name: str, the folder of its checkpoints among those of the run.
        is_scored: bool. Whether there are answers whose metrics and loss mean something.
    """

    start: int
    end: int
    objective: object = None
    name: str = ""
    is_scored: bool = True


def phases_of(settings, model, teacher=None):
    """The phases of a run: one, or with `distillation=tinybert` two.

    Args:
        settings: `FinetuneSettings`.
        model: `TaskModel` that is tuned.
        teacher: `TaskModel` that it learns from.

    Returns:
        list of `Phase`.

    Raises:
        InputError: teacher and model do not fit together, or there is no such loss for the model.
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
