"""File layout of DistilBERT."""

from keras_bert_impl.interop.layouts.bert import BertLayout, without_pairs
from keras_bert_impl.interop.layouts.names import TensorName, dense, layer_norm


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
    dropout_key = "seq_classif_dropout"
    classes = {
        None: "DistilBertModel",
        "masked_lm": "DistilBertForMaskedLM",
        "classifier": "DistilBertForSequenceClassification",
        "token_classifier": "DistilBertForTokenClassification",
        "question_answerer": "DistilBertForQuestionAnswering",
        "multiple_choice": "DistilBertForMultipleChoice",
    }

    def encoder_tensors(self, config):
        names = self._embeddings(config)
        for index in range(config.num_layers):
            names += self._block(f"layer_{index}", f"transformer.layer.{index}")
        return names

    def _block(self, ours, theirs):
        names = []
        for part in ("query", "key", "value"):
            names += dense(f"{ours}/attention/{part}", f"{theirs}.attention.{part[0]}_lin")
        return [
            *names,
            *dense(f"{ours}/attention/output", f"{theirs}.attention.out_lin"),
            *layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.sa_layer_norm"),
            *dense(f"{ours}/intermediate", f"{theirs}.ffn.lin1"),
            *dense(f"{ours}/output", f"{theirs}.ffn.lin2"),
            *layer_norm(f"{ours}/output_layer_norm", f"{theirs}.output_layer_norm"),
        ]

    def heads(self):
        heads = without_pairs(super().heads()) | {
            "masked_lm": [
                *dense("masked_lm/dense", "vocab_transform"),
                *layer_norm("masked_lm/layer_norm", "vocab_layer_norm"),
                TensorName("masked_lm/output_bias", "vocab_projector.bias"),
            ],
        }
        for head in ("classifier", "multiple_choice"):
            heads[head] = [
                *dense(f"{head}/transform", "pre_classifier"),
                *dense(f"{head}/dense", "classifier"),
            ]
        return heads
