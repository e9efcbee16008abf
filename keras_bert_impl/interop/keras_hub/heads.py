"""The heads of KerasHub's tasks: which of them are computed as ours."""

from keras_bert_impl.interop.huggingface import (
    classifier_dropout_key,
    head_tensors,
    huggingface_config,
)
from keras_bert_impl.interop.keras_hub.places import head_places

# Ends of the names of classes; the last one is that of old presets.
_TASKS = {"TextClassifier": "classifier", "MaskedLM": "masked_lm", "Classifier": "classifier"}
# Keys of a config.json that KerasHub's files cannot say. They stand beside its own settings in
# task.json, where KerasHub does not look.
NOTES = ("id2label", "label2id", "problem_type")


class Head:
    """The head of a task that KerasHub and we compute in the same way, or why there is none.

    Args:
        kind: `Kind` of the backbone.
        config: `EncoderConfig` of the backbone.
        task: str, name of the task's class, such as `"BertTextClassifier"`.
        arguments: dict, what `get_config` of the task returns.

    Attributes:
        name: str, `"classifier"` or `"masked_lm"`; None for none.
        reason: str, why there is none.
        task: str, name of the task's class.
        arguments: dict, those of the class beside backbone and preprocessor.
        config: dict for `config.json`.
        places: list of `Place`.
    """

    def __init__(self, kind, config, task, arguments):
        prefix = kind.backbone.removesuffix("Backbone")
        self.name = _TASKS.get(task.removeprefix(prefix)) if task.startswith(prefix) else None
        self.task, self.arguments = task, arguments
        self.places, more = [], {}
        self.reason = self._difference(kind, config, task, arguments)
        if self.reason:
            self.name = None
        elif self.name:
            num_classes = arguments.get("num_classes", 0)
            names = head_tensors(config, self.name)
            self.places = head_places(kind, config, names, num_classes)
            if self.name == "classifier":
                more = {
                    "id2label": {str(i): f"LABEL_{i}" for i in range(num_classes)},
                    "label2id": {f"LABEL_{i}": i for i in range(num_classes)},
                    classifier_dropout_key(config): arguments.get("dropout"),
                }
        self.config = huggingface_config(config, self.name, **more)

    def _difference(self, kind, config, task, arguments):
        if self.name is None:
            return f"{task} has no head that is known"
        if self.name not in kind.tasks:
            return f"{task} computes its head with another GELU or epsilon than the encoder"
        if self.name == "masked_lm":
            return None
        if arguments.get("activation") not in (None, "linear"):
            return f"{task} has an activation on its logits: {arguments['activation']!r:.60}"
        if arguments.get("hidden_dim", config.hidden_dim) != config.hidden_dim:
            return f"{task} has hidden_dim={arguments['hidden_dim']!r:.60}, not the encoder's"
        classes, dropout = arguments.get("num_classes"), arguments.get("dropout")
        if type(classes) is not int or not 0 < classes < 1 << 20:
            return f"{task} has num_classes={classes!r:.60}"
        if type(dropout) not in (int, float) or not 0 <= dropout < 1:
            return f"{task} has dropout={dropout!r:.60}"
        return None


def head_of(kind, config, described, tensors):
    """The head of a model directory as one of KerasHub's tasks.

    Args:
        kind: `Kind` of the backbone.
        config: `EncoderConfig`.
        described: dict, as in a `config.json`.
        tensors: dict of Hugging Face's names to arrays.

    Returns:
        `Head`, whose `name` is None where KerasHub computes it in another way; None where there
        is no head, or KerasHub has no such task.
    """
    for end, name in _TASKS.items():
        classes = huggingface_config(config, name)["architectures"]
        names = [tensor.tensor for tensor in head_tensors(config, name)]
        if described.get("architectures") != classes or not set(names) <= set(tensors):
            continue
        arguments = {}
        if name == "classifier":
            dropout = described.get(classifier_dropout_key(config))
            arguments["num_classes"] = len(tensors[names[-1]])  # the last one is a bias
            arguments["dropout"] = config.dropout if dropout is None else dropout
        return Head(kind, config, kind.backbone.removesuffix("Backbone") + end, arguments)
    return None
