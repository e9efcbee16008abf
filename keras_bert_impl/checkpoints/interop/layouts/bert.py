"""Tensor names, and the file layouts of BERT, RoBERTa and ELECTRA."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.utils.io.reading import Document


@dataclasses.dataclass(frozen=True)
class TensorName:
    """Location of a variable in the files of a model.

    Args:
        variable: Path of the Keras variable.
        tensor: Name of the tensor. Encoder tensor names omit the prefix of models with a head, such
            as `bert.`.
        transpose: Whether the file stores the transposed matrix, as PyTorch does for linear layers.
        optional: Whether the tensor may be missing. The variable of a missing tensor keeps its
            initial value.
        part: Index of the variable in a tensor that combines several variables.
        num_parts: Number of variables that the tensor combines. The variables are concatenated
            along the output axis, which is the first axis of a transposed matrix and otherwise the
            last.
    """

    variable: str
    tensor: str
    transpose: bool = False
    optional: bool = False
    part: int = 0
    num_parts: int = 1

    @property
    def axis(self) -> int:
        """Axis along which the variables are concatenated."""
        return 0 if self.transpose else -1


Heads: TypeAlias = dict[str, list[TensorName]]  # head -> tensor names


def task_classes(prefix: str, **more: str) -> dict[str | None, str]:
    """Returns {head: `transformers` class}; `more` contains other heads and class suffixes."""
    ends = {
        None: "Model",
        "masked_lm": "ForMaskedLM",
        "classifier": "ForSequenceClassification",
        "token_classifier": "ForTokenClassification",
        "question_answerer": "ForQuestionAnswering",
        "multiple_choice": "ForMultipleChoice",
    }
    return {head: prefix + end for head, end in (ends | more).items()}


def kernel(ours: str, theirs: str, part: int = 0, num_parts: int = 1) -> TensorName:
    return TensorName(f"{ours}/kernel", f"{theirs}.weight", True, part=part, num_parts=num_parts)


def dense(ours: str, theirs: str, optional: bool = False) -> list[TensorName]:
    return [
        TensorName(f"{ours}/kernel", f"{theirs}.weight", transpose=True, optional=optional),
        TensorName(f"{ours}/bias", f"{theirs}.bias", optional=optional),
    ]


def layer_norm(ours: str, theirs: str, optional: bool = False) -> list[TensorName]:
    return [
        TensorName(f"{ours}/gamma", f"{theirs}.weight", optional=optional),
        TensorName(f"{ours}/beta", f"{theirs}.bias", optional=optional),
    ]


def masked_lm(theirs: str, norm: str, bias: str) -> list[TensorName]:
    """Returns the tensor names of a masked LM head (dense layer, normalization, output bias)."""
    return [
        *dense("masked_lm/dense", theirs),
        *layer_norm("masked_lm/layer_norm", norm),
        TensorName("masked_lm/output_bias", bias),
    ]


def two_layers(head: str, transform: str, output: str) -> list[TensorName]:
    return [*dense(f"{head}/transform", transform), *dense(f"{head}/dense", output)]


def optional(names: Iterable[TensorName]) -> list[TensorName]:
    return [dataclasses.replace(name, optional=True) for name in names]


_MOST_LAYERS = 1_000  # If layers share weights, the tensors do not show the number of layers.
_OF_PAIRS = ("next_sentence", "sentence_order")  # heads for sentence pairs
ACTIVATIONS = {  # `transformers` name -> name here; for repeated values, the first name is written
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "relu": "relu",
}


def _read_rate(config: Document, key: str) -> float:
    return config.number(key, least=0, below=1)


def _read_count(config: Document, key: str) -> int:
    return config.integer(key, least=1)


def _read_non_negative(config: Document, key: str) -> int:
    return config.integer(key, least=0)


def _read_fraction(config: Document, key: str) -> float:
    return config.number(key, above=0, most=1)


def _read_base(config: Document, key: str) -> float:
    return config.number(key, above=0)


# `EncoderConfig` field -> function that reads its value from a `Document`.
READ: dict[str | None, Callable[[Document, str], Any]] = {
    None: _read_count,
    "num_layers": lambda config, key: config.integer(key, least=1, most=_MOST_LAYERS),
    "num_segments": _read_non_negative,
    "pad_token_id": _read_non_negative,
    "dropout": _read_rate,
    "mlp_dropout": _read_rate,
    "attention_dropout": _read_rate,
    "layer_norm_epsilon": _read_fraction,
    "initializer_range": _read_fraction,
    "rotary_base": _read_base,
    "local_rotary_base": _read_base,
    "activation": Document.text,
    "pooling": Document.text,
    "causal": Document.flag,
    "pre_norm": Document.flag,
    "rotary": Document.mapping,
    "layer_types": lambda config, key: config.list_of(key, str),
}
# `EncoderConfig` field -> key of `config.json`, in most architectures.
SIZE_KEYS = {
    "vocabulary_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_length": "max_position_embeddings",
}


class BertLayout:
    model_type = "bert"
    prefix = "bert"
    keys = SIZE_KEYS | {
        "num_segments": "type_vocab_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "layer_norm_epsilon": "layer_norm_eps",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
        "causal": "is_decoder",
    }
    required: tuple[str, ...] = (
        "vocabulary_size",
        "hidden_dim",
        "num_layers",
        "num_heads",
        "intermediate_dim",
    )
    read = READ
    silent: dict[str, Any] = {}
    fixed: dict[str, Any] = {"position_embedding_type": "absolute", "add_cross_attention": False}
    fixed_in_heads: dict[str, dict[str, Any]] = {}
    dropout_key = "classifier_dropout"
    decoder = "cls.predictions.decoder"
    token_embeddings = "embeddings.word_embeddings.weight"
    block = {
        "attention/query": "encoder.layer.{}.attention.self.query",
        "attention/key": "encoder.layer.{}.attention.self.key",
        "attention/value": "encoder.layer.{}.attention.self.value",
        "attention/output": "encoder.layer.{}.attention.output.dense",
        "attention_layer_norm": "encoder.layer.{}.attention.output.LayerNorm",
        "intermediate": "encoder.layer.{}.intermediate.dense",
        "output": "encoder.layer.{}.output.dense",
        "output_layer_norm": "encoder.layer.{}.output.LayerNorm",
    }
    pooler: str | None = "pooler.dense"
    projection: str | None = None
    classes = task_classes(
        "Bert",
        pretraining="ForPreTraining",
        left_to_right="LMHeadModel",
        next_sentence="ForNextSentencePrediction",
        sentence_order="ForPreTraining",
    )

    @property
    def architecture(self) -> str:
        return self.model_type.removesuffix("-decoder")

    def stated(self, config: Document) -> dict[str, Any]:
        """Returns the fields of `EncoderConfig` that `config.json` contains, with their values."""
        return {
            name: self.read.get(name, self.read[None])(config, key)
            for name, key in self.keys.items()
            if name in self.required or config.get(key) is not None
        }

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Converts values of `config.json` to values of `EncoderConfig`."""
        return settings

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Converts values of `EncoderConfig` to values of `config.json`."""
        return {name: fields[name] for name in self.keys}

    def encoder_tensors(self, config: EncoderConfig) -> list[TensorName]:
        names = self._list_embeddings(config)
        if self.projection and config.embedding_dim:
            names += dense("embeddings/projection", self.projection)
        for index in range(config.num_layer_groups or config.num_layers):
            for ours, theirs in self.block.items():
                kind = layer_norm if ours.endswith("layer_norm") else dense
                names += kind(f"layer_{index}/{ours}", theirs.format(index))
        if self.pooler and config.use_pooler:
            # Files with only a masked LM head contain no pooler.
            names += dense("pooler/dense", self.pooler, optional=True)
        return names

    def tied_tensors(self) -> dict[str, str]:
        names = {name.variable: name.tensor for name in self.heads()["masked_lm"]}
        copies = {
            f"{self.decoder}.weight": self.token_embeddings,
            f"{self.decoder}.bias": names["masked_lm/output_bias"],
        }
        return {copy: name for copy, name in copies.items() if copy != name}

    def _list_embeddings(self, config: EncoderConfig) -> list[TensorName]:
        names = [
            TensorName("embeddings/token_embeddings", self.token_embeddings),
            TensorName("embeddings/position_embeddings", "embeddings.position_embeddings.weight"),
        ]
        if config.num_segments:
            table = "embeddings.token_type_embeddings.weight"
            names.append(TensorName("embeddings/segment_embeddings", table))
        return names + layer_norm("embeddings/layer_norm", "embeddings.LayerNorm")

    def heads(self) -> Heads:
        return {
            "masked_lm": masked_lm(
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions.bias",
            ),
            "next_sentence": dense("next_sentence/dense", "cls.seq_relationship"),
            # The tensor is the same as for next_sentence, as in ALBERT's published code.
            "sentence_order": dense("sentence_order/dense", "cls.seq_relationship"),
            "classifier": dense("classifier/dense", "classifier"),
            "token_classifier": dense("token_classifier/dense", "classifier"),
            "question_answerer": dense("question_answerer/dense", "qa_outputs"),
            "multiple_choice": dense("multiple_choice/dense", "classifier"),
        }


class RobertaLayout(BertLayout):
    """RoBERTa, XLM-RoBERTa and CamemBERT, which have different class names."""

    prefix = "roberta"
    decoder = "lm_head.decoder"
    silent = {"pad_token_id": 1}

    def __init__(self, model_type: str, class_prefix: str) -> None:
        self.model_type = model_type
        self.classes = task_classes(class_prefix, left_to_right="ForCausalLM")

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        # Position of the first token. The embedding before it is for padding.
        offset = settings["pad_token_id"] + 1
        positions = settings.get("max_length", 512)
        return settings | {"position_offset": offset, "max_length": positions - offset}

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = super().to_settings(fields)
        return settings | {"max_length": fields["max_length"] + fields["position_offset"]}

    def heads(self) -> Heads:
        return without_pairs(super().heads()) | {
            "masked_lm": masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
            "classifier": two_layers("classifier", "classifier.dense", "classifier.out_proj"),
        }


class ElectraLayout(BertLayout):
    model_type = "electra"
    prefix = "electra"
    decoder = "generator_lm_head"
    keys = BertLayout.keys | {"embedding_dim": "embedding_size"}
    silent = {"embedding_dim": 128, "use_pooler": False}
    projection = "embeddings_project"
    fixed_in_heads = {
        "multiple_choice": {
            "summary_type": "first",
            "summary_use_proj": True,
            "summary_activation": "gelu",
        }
    }
    classes = task_classes("Electra", left_to_right="ForCausalLM", replaced_token="ForPreTraining")

    def to_fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        # The embedding projection exists only if the dimensions differ.
        same = settings["embedding_dim"] == settings["hidden_dim"]
        return settings | {"embedding_dim": None if same else settings["embedding_dim"]}

    def to_settings(self, fields: dict[str, Any]) -> dict[str, Any]:
        settings = super().to_settings(fields)
        return settings | {"embedding_dim": fields["embedding_dim"] or fields["hidden_dim"]}

    def heads(self) -> Heads:
        generator, discriminator = "generator_predictions", "discriminator_predictions"
        return without_pairs(super().heads()) | {
            "masked_lm": masked_lm(
                f"{generator}.dense", f"{generator}.LayerNorm", "generator_lm_head.bias"
            ),
            "replaced_token": two_layers(
                "replaced_token", f"{discriminator}.dense", f"{discriminator}.dense_prediction"
            ),
            "classifier": two_layers("classifier", "classifier.dense", "classifier.out_proj"),
            "multiple_choice": two_layers(
                "multiple_choice", "sequence_summary.summary", "classifier"
            ),
        }


def without_pairs(heads: Heads) -> Heads:
    return {name: tensors for name, tensors in heads.items() if name not in _OF_PAIRS}
