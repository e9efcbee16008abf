"""Maps KerasHub task heads to ours, where both are computed the same way."""

from typing import Any

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.huggingface import (
    classifier_dropout_key,
    head_tensors,
    huggingface_config,
)
from keras_bert_impl.interop.keras_hub.locations import Location, head_locations
from keras_bert_impl.interop.keras_hub.names import Kind
from keras_bert_impl.interop.source import Tensors

# Class name suffix -> head; the last suffix is from old presets.
_TASKS = {"TextClassifier": "classifier", "MaskedLM": "masked_lm", "Classifier": "classifier"}
# Keys of `config.json` that KerasHub files cannot express. They are stored next to its settings in
# task.json, where KerasHub ignores them.
NOTES = ("id2label", "label2id", "problem_type")


class Head:
    """A task head that KerasHub and this package compute the same way, or why there is none."""

    def __init__(
        self, kind: Kind, config: EncoderConfig, task: str, arguments: dict[str, Any]
    ) -> None:
        is_of_kind = task.startswith(kind.prefix)
        self.name = _TASKS.get(task.removeprefix(kind.prefix)) if is_of_kind else None
        self.task, self.arguments = task, arguments
        self.locations: list[Location] = []
        self.reason = self._difference(kind, config, task, arguments)
        more: dict[str, Any] = {}
        if self.reason:
            self.name = None
        else:
            num_classes = arguments.get("num_classes", 0)
            names = head_tensors(config, self.name)
            self.locations = head_locations(kind, config, names, num_classes)
            if self.name == "classifier":
                more = {
                    "id2label": {str(i): f"LABEL_{i}" for i in range(num_classes)},
                    "label2id": {f"LABEL_{i}": i for i in range(num_classes)},
                    classifier_dropout_key(config): arguments.get("dropout"),
                }
        self.config = huggingface_config(config, self.name, **more)

    def _difference(
        self, kind: Kind, config: EncoderConfig, task: str, arguments: dict[str, Any]
    ) -> str | None:
        if self.name is None:
            return f"{task} has no supported head"
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


def head_of(
    kind: Kind, config: EncoderConfig, described: dict[str, Any], tensors: Tensors
) -> Head | None:
    """Finds the KerasHub task for the head of a model directory."""
    for end, name in _TASKS.items():
        classes = huggingface_config(config, name)["architectures"]
        names = [tensor.tensor for tensor in head_tensors(config, name)]
        if described.get("architectures") != classes or not set(names) <= set(tensors):
            continue
        arguments: dict[str, Any] = {}
        if name == "classifier":
            dropout = described.get(classifier_dropout_key(config))
            arguments["num_classes"] = len(tensors[names[-1]])  # the last tensor is a bias
            arguments["dropout"] = config.dropout if dropout is None else dropout
        return Head(kind, config, kind.prefix + end, arguments)
    return None
