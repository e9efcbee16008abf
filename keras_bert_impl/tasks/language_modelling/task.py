"""Masked language modelling as a task: its model can be loaded by name."""

from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.language_modelling.model import MaskedLM


class MaskedLanguageModelling(Task):
    """Filling in masked words; learned from texts alone, by `MaskedLM.fit` or `adapt`."""

    model_classes = (MaskedLM,)


TASKS = (MaskedLanguageModelling,)
