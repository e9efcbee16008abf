"""File layouts of all architectures, keyed by `model_type` in `config.json`."""

from typing import Any

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop.layouts.bert import (
    BertLayout,
    ElectraLayout,
    Heads,
    RobertaLayout,
    TensorName,
    dense,
    layer_norm,
    masked_lm,
    task_classes,
    two_layers,
    without_pairs,
)
from keras_bert_impl.checkpoints.interop.layouts.gpt2 import Gpt2Layout
from keras_bert_impl.checkpoints.interop.layouts.modernbert import (
    ModernBertDecoderLayout,
    ModernBertLayout,
)
from keras_bert_impl.utils.errors import InputError, shown
from keras_bert_impl.utils.io.reading import Document

_BLOCK = "encoder.albert_layer_groups.{}.albert_layers.0"


class AlbertLayout(BertLayout):
    """ALBERT: factorized embeddings and one block shared by all layers."""

    model_type = "albert"
    prefix = "albert"
    decoder = "predictions.decoder"
    keys = BertLayout.keys | {
        "embedding_dim": "embedding_size",
        "num_layer_groups": "num_hidden_groups",
    }
    del keys["causal"]
    silent = {"embedding_dim": 128, "num_layer_groups": 1, "activation": "gelu_new"}
    silent |= {"dropout": 0.0, "attention_dropout": 0.0}
    fixed = {"inner_group_num": 1, "position_embedding_type": "absolute"}
    projection = "encoder.embedding_hidden_mapping_in"
    block = {
        "attention/query": f"{_BLOCK}.attention.query",
        "attention/key": f"{_BLOCK}.attention.key",
        "attention/value": f"{_BLOCK}.attention.value",
        "attention/output": f"{_BLOCK}.attention.dense",
        "attention_layer_norm": f"{_BLOCK}.attention.LayerNorm",
        "intermediate": f"{_BLOCK}.ffn",
        "output": f"{_BLOCK}.ffn_output",
        "output_layer_norm": f"{_BLOCK}.full_layer_layer_norm",
    }
    pooler = "pooler"
    dropout_key = "classifier_dropout_prob"
    classes = task_classes("Albert", pretraining="ForPreTraining", sentence_order="ForPreTraining")

    def heads(self) -> Heads:
        return without_pairs(super().heads()) | {
            "masked_lm": masked_lm(
                "predictions.dense", "predictions.LayerNorm", "predictions.bias"
            ),
            "sentence_order": dense("sentence_order/dense", "sop_classifier.classifier"),
        }


class DistilBertLayout(BertLayout):
    """DistilBERT: no segments, no pooler, different configuration keys and tensor names."""

    model_type = "distilbert"
    prefix = "distilbert"
    decoder = "vocab_projector"
    keys = {
        "vocabulary_size": "vocab_size",
        "hidden_dim": "dim",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "intermediate_dim": "hidden_dim",
        "max_length": "max_position_embeddings",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
    }
    silent = {"num_segments": 0, "use_pooler": False}
    fixed = {}
    block = {
        "attention/query": "transformer.layer.{}.attention.q_lin",
        "attention/key": "transformer.layer.{}.attention.k_lin",
        "attention/value": "transformer.layer.{}.attention.v_lin",
        "attention/output": "transformer.layer.{}.attention.out_lin",
        "attention_layer_norm": "transformer.layer.{}.sa_layer_norm",
        "intermediate": "transformer.layer.{}.ffn.lin1",
        "output": "transformer.layer.{}.ffn.lin2",
        "output_layer_norm": "transformer.layer.{}.output_layer_norm",
    }
    pooler = None
    dropout_key = "seq_classif_dropout"
    classes = task_classes("DistilBert")

    def heads(self) -> Heads:
        heads = without_pairs(super().heads()) | {
            "masked_lm": masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
        }
        for head in ("classifier", "multiple_choice"):
            heads[head] = two_layers(head, "pre_classifier", "classifier")
        return heads


def _read_windows(config, key):
    """Reads `attention_window`: a number, or a list with one number per layer."""
    if isinstance(config.get(key), list):
        return config.list_of(key, int)
    return [config.integer(key, least=2)]


class LongformerLayout(RobertaLayout):
    """Longformer: RoBERTa with local attention and separate projections for global tokens."""

    prefix = "longformer"
    keys = RobertaLayout.keys | {
        "window": "attention_window",  # The value counts the tokens on both sides.
        "max_global_tokens": "max_global_tokens",  # `transformers` preserves this unknown key.
    }
    read = RobertaLayout.read | {"window": _read_windows}
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
                "attention_window must be an even number, or a list that repeats one even "
                f"number. Received: {shown(windows)}"
            )
        return fields | {"window": both // 2}

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = super().to_settings(fields)
        return settings | {"window": [2 * fields["window"]] * fields["num_layers"]}


class BigBirdLayout(BertLayout):
    """BigBird: BERT with block-sparse attention.

    Text classification and question answering have more layers in the head than in BERT.
    """

    model_type = "big_bird"
    keys = BertLayout.keys | {
        "block_size": "block_size",
        "num_random_blocks": "num_random_blocks",
        "attention_type": "attention_type",
    }
    read = BertLayout.read | {"attention_type": Document.text}
    silent = {"max_length": 4096, "activation": "gelu_new", "block_size": 64}
    silent |= {"num_random_blocks": 3, "attention_type": "block_sparse"}
    fixed = BertLayout.fixed | {"use_bias": True, "rescale_embeddings": False}
    pooler = "pooler"
    classes = task_classes("BigBird", pretraining="ForPreTraining", left_to_right="ForCausalLM")

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        fields = dict(settings)
        kind = fields.pop("attention_type")
        if kind not in ("block_sparse", "original_full"):
            raise InputError(
                f"attention_type must be block_sparse or original_full. Received: {shown(kind)}"
            )
        return fields if kind == "block_sparse" else fields | {"block_size": None}

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        kind = "original_full" if fields["block_size"] is None else "block_sparse"
        settings = super().to_settings(fields | {"attention_type": kind})
        return {name: value for name, value in settings.items() if value is not None}

    def heads(self) -> Heads:
        head, theirs = "question_answerer", "qa_classifier"
        return super().heads() | {
            "classifier": two_layers("classifier", "classifier.dense", "classifier.out_proj"),
            head: [
                *dense(f"{head}/intermediate", f"{theirs}.intermediate.dense"),
                *dense(f"{head}/output", f"{theirs}.output.dense"),
                *layer_norm(f"{head}/layer_norm", f"{theirs}.output.LayerNorm"),
                *dense(f"{head}/dense", f"{theirs}.qa_outputs"),
            ],
        }


class FlaubertLayout(BertLayout):
    """FlauBERT: no segments and no pooler; the small and large models use pre-norm."""

    model_type = "flaubert"
    prefix = "transformer"
    decoder = "pred_layer.proj"
    token_embeddings = "embeddings.weight"
    keys = {
        "vocabulary_size": "vocab_size",
        "hidden_dim": "emb_dim",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "max_length": "max_position_embeddings",
        "activation": "gelu_activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "layer_norm_epsilon": "layer_norm_eps",
        "initializer_range": "init_std",
        "pad_token_id": "pad_token_id",
        "pre_norm": "pre_norm",
    }
    read = BertLayout.read | {"activation": Document.flag}
    required = ("vocabulary_size", "hidden_dim", "num_layers", "num_heads")
    silent = {"num_segments": 0, "use_pooler": False, "pad_token_id": 2, "activation": True}
    fixed = {"causal": False, "asm": False, "is_encoder": True, "n_langs": 1}
    fixed |= {"sinusoidal_embeddings": False}
    block = {
        "attention/query": "attentions.{}.q_lin",
        "attention/key": "attentions.{}.k_lin",
        "attention/value": "attentions.{}.v_lin",
        "attention/output": "attentions.{}.out_lin",
        "attention_layer_norm": "layer_norm1.{}",
        "intermediate": "ffns.{}.lin1",
        "output": "ffns.{}.lin2",
        "output_layer_norm": "layer_norm2.{}",
    }
    fixed_in_heads = dict.fromkeys(
        ("classifier", "multiple_choice"),
        {
            "summary_type": "first",
            "summary_use_proj": True,
            "summary_activation": None,
            "summary_proj_to_labels": True,
        },
    )
    pooler = None
    dropout_key = "summary_first_dropout"
    classes = task_classes(
        "Flaubert", masked_lm="WithLMHeadModel", question_answerer="ForQuestionAnsweringSimple"
    )

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings | {
            "intermediate_dim": 4 * settings["hidden_dim"],
            "activation": "gelu" if settings["activation"] else "relu",
        }

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        return super().to_settings(fields) | {"activation": fields["activation"] == "gelu"}

    def _list_embeddings(self, config: EncoderConfig) -> list[TensorName]:
        names = {"token_embeddings": self.token_embeddings}
        names["position_embeddings"] = "position_embeddings.weight"
        if config.num_segments:  # only in XLM
            names["segment_embeddings"] = "lang_embeddings.weight"
        return [
            *(TensorName(f"embeddings/{ours}", theirs) for ours, theirs in names.items()),
            *layer_norm("embeddings/layer_norm", "layer_norm_emb"),
        ]

    def heads(self) -> Heads:
        return without_pairs(super().heads()) | {
            "masked_lm": [TensorName("masked_lm/output_bias", "pred_layer.proj.bias")],
            "classifier": dense("classifier/dense", "sequence_summary.summary"),
            "multiple_choice": two_layers(
                "multiple_choice", "sequence_summary.summary", "logits_proj"
            ),
        }


class XlmLayout(FlaubertLayout):
    """XLM: FlauBERT without pre-norm, and with languages as segments."""

    model_type = "xlm"
    keys = FlaubertLayout.keys | {"num_segments": "n_langs", "has_language_ids": "use_lang_emb"}
    del keys["pre_norm"]
    read = FlaubertLayout.read | {"has_language_ids": Document.flag}
    silent = FlaubertLayout.silent | {"num_segments": 1, "has_language_ids": True}
    fixed = {key: value for key, value in FlaubertLayout.fixed.items() if key != "n_langs"}
    classes = task_classes(
        "XLM", masked_lm="WithLMHeadModel", question_answerer="ForQuestionAnsweringSimple"
    )

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        fields = super().to_fields(settings)
        if not fields.pop("has_language_ids") or fields["num_segments"] == 1:
            fields["num_segments"] = 0
        return fields

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        count = fields["num_segments"]
        if count == 1:
            raise InputError("an xlm with one language has no language embeddings: num_segments=0.")
        fields = fields | {"num_segments": count or 1, "has_language_ids": count > 1}
        return super().to_settings(fields)


_LAYOUTS: tuple[BertLayout, ...] = (
    BertLayout(),
    RobertaLayout("roberta", "Roberta"),
    RobertaLayout("xlm-roberta", "XLMRoberta"),
    RobertaLayout("camembert", "Camembert"),
    AlbertLayout(),
    DistilBertLayout(),
    ElectraLayout(),
    FlaubertLayout(),
    XlmLayout(),
    ModernBertLayout(),
    ModernBertDecoderLayout(),
    LongformerLayout(),
    BigBirdLayout(),
    Gpt2Layout(),
)
LAYOUTS = {layout.model_type: layout for layout in _LAYOUTS}

# Tensor names for pre-training heads that the published models of an architecture lack.
# `transformers` ignores these tensors.
OWN_HEADS = {
    "next_sentence": dense("next_sentence/dense", "next_sentence.dense"),
    "sentence_order": dense("sentence_order/dense", "sentence_order.dense"),
    "replaced_token": two_layers(
        "replaced_token", "replaced_token.transform", "replaced_token.dense"
    ),
}


def layout_of(config: EncoderConfig) -> BertLayout:
    causal = LAYOUTS.get(f"{config.architecture}-decoder") if config.causal else None
    return causal or LAYOUTS[config.architecture]
