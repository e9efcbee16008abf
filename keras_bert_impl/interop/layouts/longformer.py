"""File layout of Longformer."""

from typing import Any

from keras_bert_impl.interop.layouts.bert import RobertaLayout
from keras_bert_impl.interop.layouts.names import task_classes
from keras_bert_impl.io.errors import InputError, shown


def _windows(config, key):
    """Reads `attention_window`: a number, or a list with one for each layer."""
    if isinstance(config.get(key), list):
        return config.list_of(key, int)
    return [config.integer(key, least=2)]


class LongformerLayout(RobertaLayout):
    """Longformer: RoBERTa with a window and second projections for global tokens."""

    prefix = "longformer"
    keys = RobertaLayout.keys | {
        "window": "attention_window",  # both sides together
        "max_global_tokens": "max_global_tokens",  # ours; `transformers` keeps it
    }
    read = RobertaLayout.read | {"window": _windows}
    silent = RobertaLayout.silent | {"window": [512], "max_global_tokens": 128}
    fixed: dict[str, Any] = {}
    block = RobertaLayout.block | {
        f"attention/{name}": f"encoder.layer.{{}}.attention.self.{name}"
        for name in ("query_global", "key_global", "value_global")
    }

    def __init__(self) -> None:
        super().__init__("longformer", "Longformer")
        self.classes = task_classes("Longformer")

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        fields = super().to_fields(settings)
        windows = fields["window"]
        both = windows[0] if windows else 0
        if windows not in ([both], [both] * fields["num_layers"]) or both < 2 or both % 2:
            raise InputError(
                "attention_window must be an even number, or a list with the same even number for "
                f"each layer. Received: {shown(windows)}"
            )
        return fields | {"window": both // 2}

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = super().to_settings(fields)
        return settings | {"window": [2 * fields["window"]] * fields["num_layers"]}
