"""File layouts of BERT and of models with similar files: RoBERTa and ELECTRA."""

from keras_bert_impl.interop.layouts.names import TensorName, dense, layer_norm
from keras_bert_impl.io.document import Document

_MOST_LAYERS = 1_000  # if layers share weights, no tensor shows that there are fewer
_OF_PAIRS = ("next_sentence", "sentence_order")  # heads for sentence pairs
ACTIVATIONS = {  # of `transformers`; the first of several equivalent names is written
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "relu": "relu",
}


def _count(config, key):
    return config.integer(key, least=1)


def _from_zero(config, key):
    return config.integer(key, least=0)


def rate(config, key, *default):
    """Reads a dropout rate from a `Document`; a missing one is the default, if given."""
    return config.number(key, *default, least=0, below=1)


def _up_to_one(config, key):
    return config.number(key, above=0, most=1)


def _base(config, key):
    return config.number(key, above=0)


# `EncoderConfig` field -> function that reads it from a `Document`; None is for all others.
READ = {
    None: _count,
    "num_layers": lambda config, key: config.integer(key, least=1, most=_MOST_LAYERS),
    "num_segments": _from_zero,
    "pad_token_id": _from_zero,
    "dropout": rate,
    "mlp_dropout": rate,
    "attention_dropout": rate,
    "layer_norm_epsilon": _up_to_one,
    "initializer_range": _up_to_one,
    "rotary_base": _base,
    "local_rotary_base": _base,
    "activation": Document.text,
    "pooling": Document.text,
    "causal": Document.flag,
    "pre_norm": Document.flag,
    "rotary": Document.mapping,
    "layer_types": lambda config, key: config.list_of(key, str),
}


class BertLayout:
    """Keys of `config.json` and tensor names of BERT.

    Attributes:
        model_type: str. `model_type` in `config.json`.
        architecture: str. `architecture` of the `EncoderConfig`.
        prefix: str. Prefix of the encoder's tensor names in models with a head.
        keys: dict. `EncoderConfig` field -> key of `config.json`.
        required: tuple of str. Fields that `config.json` must state.
        silent: dict. Values of fields that `config.json` does not state, where they differ from
            the defaults of `EncoderConfig`.
        fixed: dict. Keys that change the computation -> the only supported value.
        classes: dict. Head -> class of `transformers`.
        dropout_key: str. Key of `config.json` for the dropout rate before the classifier.
        read: dict. Field -> function of a `Document` and a key that reads the value by its type.
    """

    model_type = "bert"
    prefix = "bert"
    keys = {
        "vocabulary_size": "vocab_size",
        "hidden_dim": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_dim": "intermediate_size",
        "max_length": "max_position_embeddings",
        "num_segments": "type_vocab_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "layer_norm_epsilon": "layer_norm_eps",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
        "causal": "is_decoder",
    }
    required = ("vocabulary_size", "hidden_dim", "num_layers", "num_heads", "intermediate_dim")
    read = READ
    silent = {}
    fixed = {"position_embedding_type": "absolute", "add_cross_attention": False}
    dropout_key = "classifier_dropout"
    decoder = "cls.predictions.decoder"  # output matrix of the masked LM head
    token_embeddings = "embeddings.word_embeddings.weight"
    classes = {
        None: "BertModel",
        "pretraining": "BertForPreTraining",
        "masked_lm": "BertForMaskedLM",
        "left_to_right": "BertLMHeadModel",
        "next_sentence": "BertForNextSentencePrediction",
        "sentence_order": "BertForPreTraining",
        "classifier": "BertForSequenceClassification",
        "token_classifier": "BertForTokenClassification",
        "question_answerer": "BertForQuestionAnswering",
        "multiple_choice": "BertForMultipleChoice",
    }

    @property
    def architecture(self):
        return self.model_type.removesuffix("-decoder")

    def stated(self, config):
        """Returns a dict of the fields stated in a configuration to the values of their keys.

        Args:
            config: `Document`.
        """
        return {
            name: self.read.get(name, self.read[None])(config, key)
            for name, key in self.keys.items()
            if name in self.required or config.get(key) is not None
        }

    def to_fields(self, settings):
        """Converts values of `config.json` to `EncoderConfig` fields.

        Args:
            settings: dict of the stated fields to their values in `config.json`.
        """
        return settings

    def to_settings(self, fields):
        """Converts `EncoderConfig` fields to values of `config.json`."""
        return {name: fields[name] for name in self.keys}

    def encoder_tensors(self, config):
        """Returns a list of the `TensorName`s of an encoder."""
        names = self._embeddings(config)
        for index in range(config.num_layers):
            names += self._block(f"layer_{index}", f"encoder.layer.{index}")
        return names + self._pooler(config)

    def tied_tensors(self):
        """Returns a dict of duplicate head tensors in some files to the tensors they copy."""
        names = {name.variable: name.tensor for name in self.heads()["masked_lm"]}
        copies = {
            f"{self.decoder}.weight": self.token_embeddings,
            f"{self.decoder}.bias": names["masked_lm/output_bias"],
        }
        return {copy: name for copy, name in copies.items() if copy != name}

    def _embeddings(self, config):
        names = [
            TensorName("embeddings/token_embeddings", self.token_embeddings),
            TensorName("embeddings/position_embeddings", "embeddings.position_embeddings.weight"),
        ]
        if config.num_segments:
            table = "embeddings.token_type_embeddings.weight"
            names.append(TensorName("embeddings/segment_embeddings", table))
        return names + layer_norm("embeddings/layer_norm", "embeddings.LayerNorm")

    def _block(self, ours, theirs):
        names = []
        for part in ("query", "key", "value"):
            names += dense(f"{ours}/attention/{part}", f"{theirs}.attention.self.{part}")
        return [
            *names,
            *dense(f"{ours}/attention/output", f"{theirs}.attention.output.dense"),
            *layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.attention.output.LayerNorm"),
            *dense(f"{ours}/intermediate", f"{theirs}.intermediate.dense"),
            *dense(f"{ours}/output", f"{theirs}.output.dense"),
            *layer_norm(f"{ours}/output_layer_norm", f"{theirs}.output.LayerNorm"),
        ]

    def _pooler(self, config):
        # Checkpoints with only a masked LM have no pooler.
        return dense("pooler/dense", "pooler.dense", optional=True) if config.use_pooler else []

    def heads(self):
        """Returns a dict of head names to lists of `TensorName`."""
        return {
            "masked_lm": [
                *dense("masked_lm/dense", "cls.predictions.transform.dense"),
                *layer_norm("masked_lm/layer_norm", "cls.predictions.transform.LayerNorm"),
                TensorName("masked_lm/output_bias", "cls.predictions.bias"),
            ],
            "next_sentence": dense("next_sentence/dense", "cls.seq_relationship"),
            # Same tensor as next_sentence, as in ALBERT's published code.
            "sentence_order": dense("sentence_order/dense", "cls.seq_relationship"),
            "classifier": dense("classifier/dense", "classifier"),
            "token_classifier": dense("token_classifier/dense", "classifier"),
            "question_answerer": dense("question_answerer/dense", "qa_outputs"),
            "multiple_choice": dense("multiple_choice/dense", "classifier"),
        }


class RobertaLayout(BertLayout):
    """RoBERTa, XLM-RoBERTa and CamemBERT, which differ in their class names."""

    prefix = "roberta"
    decoder = "lm_head.decoder"
    silent = {"pad_token_id": 1}

    def __init__(self, model_type, class_prefix):
        self.model_type = model_type
        self.classes = {
            head: name.replace("Bert", class_prefix)
            for head, name in BertLayout.classes.items()
            if head not in ("pretraining", *_OF_PAIRS)
        }
        self.classes["left_to_right"] = f"{class_prefix}ForCausalLM"

    def to_fields(self, settings):
        # Rows before the first token's: padding's row and, before that, unused ones.
        offset = settings["pad_token_id"] + 1
        positions = settings.get("max_length", 512)
        return settings | {"position_offset": offset, "max_length": positions - offset}

    def to_settings(self, fields):
        settings = super().to_settings(fields)
        return settings | {"max_length": fields["max_length"] + fields["position_offset"]}

    def heads(self):
        return without_pairs(super().heads()) | {
            "masked_lm": [
                *dense("masked_lm/dense", "lm_head.dense"),
                *layer_norm("masked_lm/layer_norm", "lm_head.layer_norm"),
                TensorName("masked_lm/output_bias", "lm_head.bias"),
            ],
            "classifier": [
                *dense("classifier/transform", "classifier.dense"),
                *dense("classifier/dense", "classifier.out_proj"),
            ],
        }


class ElectraLayout(BertLayout):
    """ELECTRA discriminators and generators."""

    model_type = "electra"
    prefix = "electra"
    decoder = "generator_lm_head"
    keys = BertLayout.keys | {"embedding_dim": "embedding_size"}
    silent = {"embedding_dim": 128, "use_pooler": False}
    classes = {
        None: "ElectraModel",
        "masked_lm": "ElectraForMaskedLM",
        "left_to_right": "ElectraForCausalLM",
        "replaced_token": "ElectraForPreTraining",
        "classifier": "ElectraForSequenceClassification",
        "token_classifier": "ElectraForTokenClassification",
        "question_answerer": "ElectraForQuestionAnswering",
        "multiple_choice": "ElectraForMultipleChoice",
    }

    def to_fields(self, settings):
        # The embedding projection exists only if the widths differ.
        same = settings["embedding_dim"] == settings["hidden_dim"]
        return settings | {"embedding_dim": None if same else settings["embedding_dim"]}

    def to_settings(self, fields):
        settings = super().to_settings(fields)
        return settings | {"embedding_dim": fields["embedding_dim"] or fields["hidden_dim"]}

    def _embeddings(self, config):
        names = super()._embeddings(config)
        if config.embedding_dim:
            names += dense("embeddings/projection", "embeddings_project")
        return names

    def heads(self):
        generator, discriminator = "generator_predictions", "discriminator_predictions"
        return without_pairs(super().heads()) | {
            "masked_lm": [
                *dense("masked_lm/dense", f"{generator}.dense"),
                *layer_norm("masked_lm/layer_norm", f"{generator}.LayerNorm"),
                TensorName("masked_lm/output_bias", "generator_lm_head.bias"),
            ],
            "replaced_token": [
                *dense("replaced_token/transform", f"{discriminator}.dense"),
                *dense("replaced_token/dense", f"{discriminator}.dense_prediction"),
            ],
            "classifier": [
                *dense("classifier/transform", "classifier.dense"),
                *dense("classifier/dense", "classifier.out_proj"),
            ],
            "multiple_choice": [
                *dense("multiple_choice/transform", "sequence_summary.summary"),
                *dense("multiple_choice/dense", "classifier"),
            ],
        }


def without_pairs(heads):
    """Returns the heads of `BertLayout` that similar architectures share."""
    return {name: tensors for name, tensors in heads.items() if name not in _OF_PAIRS}
