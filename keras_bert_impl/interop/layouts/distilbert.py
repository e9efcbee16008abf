"""File layout of DistilBERT."""

from keras_bert_impl.interop.layouts.bert import BertLayout, without_pairs
from keras_bert_impl.interop.layouts.names import Heads, masked_lm, task_classes, two_layers


class DistilBertLayout(BertLayout):
    """DistilBERT: no segments, no pooler, and other key and tensor names."""

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
