"""File layout of FlauBERT, which follows XLM's."""

from typing import Any

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.interop.layouts.bert import BertLayout, without_pairs
from keras_bert_impl.interop.layouts.names import (
    Heads,
    TensorName,
    dense,
    layer_norm,
    task_classes,
    two_layers,
)
from keras_bert_impl.io.document import Document


class FlaubertLayout(BertLayout):
    """FlauBERT: no segments, no pooler; the small and large models use pre-norm."""

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

    def _embeddings(self, config: EncoderConfig) -> list[TensorName]:
        return [
            TensorName("embeddings/token_embeddings", self.token_embeddings),
            TensorName("embeddings/position_embeddings", "position_embeddings.weight"),
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
