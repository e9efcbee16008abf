"""File layout of ALBERT."""

from keras_bert_impl.interop.layouts.bert import BertLayout, without_pairs
from keras_bert_impl.interop.layouts.names import TensorName, dense, layer_norm


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
    dropout_key = "classifier_dropout_prob"
    classes = {
        None: "AlbertModel",
        "pretraining": "AlbertForPreTraining",
        "sentence_order": "AlbertForPreTraining",
        "masked_lm": "AlbertForMaskedLM",
        "classifier": "AlbertForSequenceClassification",
        "token_classifier": "AlbertForTokenClassification",
        "question_answerer": "AlbertForQuestionAnswering",
        "multiple_choice": "AlbertForMultipleChoice",
    }

    def encoder_tensors(self, config):
        projection = "encoder.embedding_hidden_mapping_in"
        names = self._embeddings(config) + dense("embeddings/projection", projection)
        for index in range(config.num_layer_groups):
            theirs = f"encoder.albert_layer_groups.{index}.albert_layers.0"
            names += self._block(f"layer_{index}", theirs)
        if config.use_pooler:
            names += dense("pooler/dense", "pooler", optional=True)
        return names

    def _block(self, ours, theirs):
        names = []
        for part in ("query", "key", "value"):
            names += dense(f"{ours}/attention/{part}", f"{theirs}.attention.{part}")
        return [
            *names,
            *dense(f"{ours}/attention/output", f"{theirs}.attention.dense"),
            *layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.attention.LayerNorm"),
            *dense(f"{ours}/intermediate", f"{theirs}.ffn"),
            *dense(f"{ours}/output", f"{theirs}.ffn_output"),
            *layer_norm(f"{ours}/output_layer_norm", f"{theirs}.full_layer_layer_norm"),
        ]

    def heads(self):
        return without_pairs(super().heads()) | {
            "masked_lm": [
                *dense("masked_lm/dense", "predictions.dense"),
                *layer_norm("masked_lm/layer_norm", "predictions.LayerNorm"),
                TensorName("masked_lm/output_bias", "predictions.bias"),
            ],
            "sentence_order": dense("sentence_order/dense", "sop_classifier.classifier"),
        }
