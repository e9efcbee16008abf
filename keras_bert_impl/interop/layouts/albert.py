"""File layout of ALBERT."""

from keras_bert_impl.interop.layouts.bert import BertLayout, without_pairs
from keras_bert_impl.interop.layouts.names import Heads, dense, masked_lm, task_classes

_BLOCK = "encoder.albert_layer_groups.{}.albert_layers.0"


class AlbertLayout(BertLayout):
    """ALBERT: factorized embeddings, and one block shared by all layers."""

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
