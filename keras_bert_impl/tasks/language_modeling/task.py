"""The masked language modeling task, so that its models can be loaded by name."""

from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.language_modeling.model import MaskedLM


class MaskedLanguageModeling(Task):
    """Masked-token prediction; trained on unlabeled texts by `MaskedLM.fit` or `adapt`."""

    model_classes = (MaskedLM,)
    report = "keras_bert_impl.reports.sections.pretraining"


TASKS = (MaskedLanguageModeling,)
