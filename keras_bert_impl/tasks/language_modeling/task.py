"""The masked language modeling task; it is registered to load its models by name."""

from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.language_modeling.model import MaskedLM


class MaskedLanguageModeling(Task):
    """Masked-token prediction. `MaskedLM.fit` and `adapt` train it on unlabeled texts."""

    model_classes = (MaskedLM,)
    report = "keras_bert_impl.reports.sections.pretraining"


TASKS = (MaskedLanguageModeling,)
