"""The language modeling tasks of the task registry."""

from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.language_modeling.causal import CausalLM
from keras_bert_impl.tasks.language_modeling.model import MaskedLM


class MaskedLanguageModeling(Task):
    """Masked language modeling. `MaskedLM.fit` and `adapt` train the model on unlabeled texts."""

    model_classes = (MaskedLM,)
    report = "keras_bert_impl.reports.sections.pretraining"


class CausalLanguageModeling(Task):
    """Causal language modeling. `CausalLM.fit` trains the model on unlabeled texts."""

    model_classes = (CausalLM,)


TASKS = (MaskedLanguageModeling, CausalLanguageModeling)
