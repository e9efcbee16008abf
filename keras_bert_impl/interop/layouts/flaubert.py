"""File layout of FlauBERT, which follows XLM's."""

from keras_bert_impl.interop.layouts.bert import BertLayout, without_pairs
from keras_bert_impl.interop.layouts.names import TensorName, dense, layer_norm
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
    dropout_key = "summary_first_dropout"
    classes = {
        None: "FlaubertModel",
        "masked_lm": "FlaubertWithLMHeadModel",
        "classifier": "FlaubertForSequenceClassification",
        "token_classifier": "FlaubertForTokenClassification",
        "question_answerer": "FlaubertForQuestionAnsweringSimple",
        "multiple_choice": "FlaubertForMultipleChoice",
    }

    def to_fields(self, settings):
        return settings | {
            "intermediate_dim": 4 * settings["hidden_dim"],
            "activation": "gelu" if settings["activation"] else "relu",
        }

    def to_settings(self, fields):
        return super().to_settings(fields) | {"activation": fields["activation"] == "gelu"}

    def encoder_tensors(self, config):
        names = [
            TensorName("embeddings/token_embeddings", self.token_embeddings),
            TensorName("embeddings/position_embeddings", "position_embeddings.weight"),
            *layer_norm("embeddings/layer_norm", "layer_norm_emb"),
        ]
        for index in range(config.num_layers):
            ours = f"layer_{index}"
            for part in ("query", "key", "value"):
                names += dense(f"{ours}/attention/{part}", f"attentions.{index}.{part[0]}_lin")
            names += [
                *dense(f"{ours}/attention/output", f"attentions.{index}.out_lin"),
                *layer_norm(f"{ours}/attention_layer_norm", f"layer_norm1.{index}"),
                *dense(f"{ours}/intermediate", f"ffns.{index}.lin1"),
                *dense(f"{ours}/output", f"ffns.{index}.lin2"),
                *layer_norm(f"{ours}/output_layer_norm", f"layer_norm2.{index}"),
            ]
        return names

    def heads(self):
        return without_pairs(super().heads()) | {
            "masked_lm": [TensorName("masked_lm/output_bias", "pred_layer.proj.bias")],
            "classifier": dense("classifier/dense", "sequence_summary.summary"),
            "multiple_choice": [
                *dense("multiple_choice/transform", "sequence_summary.summary"),
                *dense("multiple_choice/dense", "logits_proj"),
            ],
        }
