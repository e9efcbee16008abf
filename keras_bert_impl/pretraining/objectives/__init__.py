"""Pre-training objectives for any backend. All objectives of a run use one encoder."""

from collections.abc import Iterable

from keras_bert_impl.pretraining.objectives.base import (
    LeftToRight,
    MaskedLM,
    NextSentence,
    PretrainingObjective,
    SentenceOrder,
    SpanBoundary,
)
from keras_bert_impl.pretraining.objectives.distillation import Distillation, LayerDistillation
from keras_bert_impl.pretraining.objectives.replaced_tokens import ReplacedTokens
from keras_bert_impl.utils.errors import InputError

OBJECTIVES = {
    objective.name: objective
    for objective in (
        MaskedLM,
        NextSentence,
        SentenceOrder,
        SpanBoundary,
        ReplacedTokens,
        LeftToRight,
        Distillation,
        LayerDistillation,
    )
}


def as_objectives(
    objectives: Iterable[PretrainingObjective | str] | PretrainingObjective | str,
) -> tuple[PretrainingObjective, ...]:
    instances = []
    for objective in (
        [objectives] if isinstance(objectives, (PretrainingObjective, str)) else objectives
    ):
        if not isinstance(objective, PretrainingObjective):
            if objective not in list(OBJECTIVES):  # a list, because a value may be unhashable
                choices = ", ".join(OBJECTIVES)
                raise InputError(f"objectives must be among {choices}. Received: {objective!r}")
            objective = OBJECTIVES[objective]()
        instances.append(objective)
    names = [objective.name for objective in instances]
    if "left_to_right" in names and len(instances) > 1:
        raise InputError(
            f"left_to_right cannot be combined with other objectives. Received: {names}"
        )
    outputs = [name for objective in instances for name in objective.output_names]
    if not instances or len(set(outputs)) < len(outputs):
        raise InputError(f"objectives must not be empty or share outputs. Received: {names}")
    return tuple(instances)
