"""File layouts of ModernBERT and its causal decoder."""

from typing import Any

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.layouts.bert import (
    SIZE_KEYS,
    BertLayout,
    Heads,
    TensorName,
    dense,
    kernel,
    task_classes,
)
from keras_bert_impl.utils.errors import InputError, shown

_FULL, _SLIDING = "full_attention", "sliding_attention"
_BASES = {_FULL: "rotary_base", _SLIDING: "local_rotary_base"}
_OUTPUT_BIAS = TensorName("masked_lm/output_bias", "decoder.bias")


class ModernBertLayout(BertLayout):
    """ModernBERT: rotary positions, local and global layers, gated feed-forward, no biases."""

    model_type = "modernbert"
    prefix = "model"
    decoder = "decoder"
    token_embeddings = "embeddings.tok_embeddings.weight"
    keys = SIZE_KEYS | {
        "activation": "hidden_activation",
        "dropout": "embedding_dropout",
        "mlp_dropout": "mlp_dropout",
        "attention_dropout": "attention_dropout",
        "layer_norm_epsilon": "norm_eps",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
        "pooling": "classifier_pooling",
        "rotary_base": "global_rope_theta",
        "local_rotary_base": "local_rope_theta",
        "rotary": "rope_parameters",  # Since transformers 5, this key contains both bases.
        "global_every": "global_attn_every_n_layers",
        "layer_types": "layer_types",  # Only files of transformers 5 have this key.
        "window": "local_attention",  # The value counts the tokens on both sides.
    }
    silent = {
        "max_length": 8192,
        "num_segments": 0,
        "dropout": 0.0,
        "mlp_dropout": 0.0,
        "attention_dropout": 0.0,
        "layer_norm_epsilon": 1e-5,
        "pad_token_id": 50283,
        "use_pooler": False,
        "pre_norm": True,
        "final_norm": True,
        "use_bias": False,
        "gated": True,
        "rotary_base": 160000.0,
        "local_rotary_base": 10000.0,
        "global_every": 3,
        "window": 128,
    }
    fixed = {"attention_bias": False, "mlp_bias": False, "norm_bias": False}
    fixed |= {"rope_scaling": None, "classifier_bias": False}
    fixed |= {"classifier_activation": "gelu", "decoder_bias": True}
    dropout_key = "classifier_dropout"
    classes = task_classes("ModernBert")

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        fields = dict(settings)
        rates = {fields[name] for name in ("dropout", "attention_dropout", "mlp_dropout")}
        # In transformers, attention_dropout also applies to the attention's outputs.
        if len(rates) > 1:
            raise InputError("embedding_dropout, attention_dropout and mlp_dropout must be equal.")
        del fields["mlp_dropout"]
        fields |= _read_rotary_bases(fields.pop("rotary", {}))
        if "layer_types" in fields:
            types = fields.pop("layer_types")
            fields["global_every"] = _infer_global_every(types, fields["num_layers"])
        fields["window"] //= 2
        if fields["global_every"] == 1:
            fields |= {"window": None, "local_rotary_base": None}
        if fields["local_rotary_base"] == fields["rotary_base"]:
            fields["local_rotary_base"] = None
        return fields

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = {name: fields[name] for name in self.keys if fields.get(name) is not None}
        if fields["window"] is not None:
            settings["window"] = 2 * fields["window"]
            settings["local_rotary_base"] = fields["local_rotary_base"] or fields["rotary_base"]
        return settings | {"mlp_dropout": fields["dropout"]}

    def encoder_tensors(self, config: EncoderConfig) -> list[TensorName]:
        names = [
            TensorName("embeddings/token_embeddings", self.token_embeddings),
            TensorName("embeddings/layer_norm/gamma", "embeddings.norm.weight"),
        ]
        for index in range(config.num_layers):
            names += self._list_block(f"layer_{index}", f"layers.{index}", with_norm=index > 0)
        return [*names, TensorName("final_layer_norm/gamma", "final_norm.weight")]

    def _list_block(self, ours: str, theirs: str, with_norm: bool) -> list[TensorName]:
        norm = TensorName(f"{ours}/attention_layer_norm/gamma", f"{theirs}.attn_norm.weight")
        return [
            *([norm] if with_norm else []),
            *self._list_projections(f"{ours}/attention", f"{theirs}.attn"),
            kernel(f"{ours}/attention/output", f"{theirs}.attn.Wo"),
            TensorName(f"{ours}/output_layer_norm/gamma", f"{theirs}.mlp_norm.weight"),
            kernel(f"{ours}/intermediate", f"{theirs}.mlp.Wi", 0, 2),
            kernel(f"{ours}/gate", f"{theirs}.mlp.Wi", 1, 2),
            kernel(f"{ours}/output", f"{theirs}.mlp.Wo"),
        ]

    def _list_projections(self, ours, theirs):
        parts = enumerate(("query", "key", "value"))
        return [kernel(f"{ours}/{name}", f"{theirs}.Wqkv", part, 3) for part, name in parts]

    def heads(self) -> Heads:
        heads = {"masked_lm": [*_list_transform("masked_lm", "dense", "head"), _OUTPUT_BIAS]}
        for head in ("classifier", "token_classifier", "question_answerer", "multiple_choice"):
            output = dense(f"{head}/dense", "classifier")
            heads[head] = _list_transform(head, "transform", "head") + output
        return heads


class ModernBertDecoderLayout(ModernBertLayout):
    """Causal ModernBERT, such as the decoders of Weller et al. 2025 (arXiv:2507.11412)."""

    model_type = "modernbert-decoder"
    silent = ModernBertLayout.silent | {"causal": True}
    classes = {
        None: "ModernBertDecoderModel",
        "left_to_right": "ModernBertDecoderForCausalLM",
        "classifier": "ModernBertDecoderForSequenceClassification",
        # The class is missing in transformers.
        "token_classifier": "ModernBertDecoderForTokenClassification",
    }

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        fields = super().to_fields(settings)
        # In the decoder, half of `local_attention` includes the token itself.
        if fields["window"] is not None:
            fields["window"] -= 1
        return fields

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = super().to_settings(fields)
        if fields["window"] is not None:
            settings["window"] += 2
        return settings

    def _list_projections(self, ours, theirs):
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
        return [kernel(f"{ours}/{name}", f"{theirs}.{module}") for name, module in names.items()]

    def heads(self) -> Heads:
        heads = {"masked_lm": [*_list_transform("masked_lm", "dense", "lm_head"), _OUTPUT_BIAS]}
        for head in ("classifier", "token_classifier"):
            output = kernel(f"{head}/dense", "classifier")
            heads[head] = [*_list_transform(head, "transform", "head"), output]
        return heads


def _list_transform(head: str, layer: str, theirs: str) -> list[TensorName]:
    return [
        kernel(f"{head}/{layer}", f"{theirs}.dense"),
        TensorName(f"{head}/layer_norm/gamma", f"{theirs}.norm.weight"),
    ]


def _read_rotary_bases(parameters):
    fields = {}
    for kind in parameters:
        values = parameters.mapping(kind)
        if kind not in _BASES or values.text("rope_type", "default") != "default":
            raise InputError(f"rope_parameters {shown(kind)} {shown(values)} are not supported.")
        if "rope_theta" in values:
            fields[_BASES[kind]] = values.number("rope_theta", above=0)
    return fields


def _infer_global_every(types, num_layers):
    """Returns n for `layer_types` in which every n-th layer is global."""
    every = next((i for i, kind in enumerate(types) if i and kind == _FULL), num_layers)
    repeated = [_SLIDING if index % every else _FULL for index in range(len(types))]
    if len(types) != num_layers or types != repeated:
        raise InputError(
            "layer_types must repeat one global layer and a fixed number of local layers."
        )
    return every
