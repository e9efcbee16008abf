"""Variable names in the checkpoints of google-research's bert, albert and electra.

Sources: `modeling.py`, `run_pretraining.py`, `run_classifier.py` and `run_squad.py` of these
repositories.
"""

import dataclasses
import re
from collections.abc import Collection

from keras_bert_impl.io.errors import InputError


@dataclasses.dataclass(frozen=True)
class Name:
    """Google and Hugging Face names of a tensor.

    Args:
        google: Name of the variable; `#` stands for a number.
        huggingface: Name in a model directory, with the same number of `#`.
        transpose: Whether a model directory stores the transpose.
    """

    google: str
    huggingface: str
    transpose: bool = False

    def to_huggingface(self, name: str) -> str | None:
        """Converts a Google name; returns None if it does not match."""
        return _renamed(name, self.google, self.huggingface)

    def to_google(self, name: str) -> str | None:
        """Converts a Hugging Face name; returns None if it does not match."""
        return _renamed(name, self.huggingface, self.google)


def _renamed(name, source, target):
    found = re.fullmatch(re.escape(source).replace(r"\#", r"(\d{1,9})"), name)
    if found is None:
        return None
    for number in found.groups():
        target = target.replace("#", number, 1)
    return target


def dense(google: str, huggingface: str) -> list[Name]:
    """Returns the `Name`s of a dense layer's two tensors."""
    return [
        Name(f"{google}/kernel", f"{huggingface}.weight", transpose=True),
        Name(f"{google}/bias", f"{huggingface}.bias"),
    ]


def layer_norm(google: str, huggingface: str) -> list[Name]:
    """Returns the `Name`s of a layer normalization's two tensors."""
    return [
        Name(f"{google}/gamma", f"{huggingface}.weight"),
        Name(f"{google}/beta", f"{huggingface}.bias"),
    ]


def _head(google, huggingface):
    return [
        Name(f"{google}output_weights", f"{huggingface}.weight"),
        Name(f"{google}output_bias", f"{huggingface}.bias"),
    ]


def _embeddings(google, huggingface):
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    return [
        *(Name(f"{google}/{table}", f"{huggingface}.{table}.weight") for table in tables),
        *layer_norm(f"{google}/LayerNorm", f"{huggingface}.LayerNorm"),
    ]


def _layers(google, huggingface):
    names = []
    for part in (
        "attention/self/query",
        "attention/self/key",
        "attention/self/value",
        "attention/output/dense",
        "intermediate/dense",
        "output/dense",
    ):
        names += dense(f"{google}/layer_#/{part}", f"{huggingface}.{part.replace('/', '.')}")
    for part in ("attention/output/LayerNorm", "output/LayerNorm"):
        names += layer_norm(f"{google}/layer_#/{part}", f"{huggingface}.{part.replace('/', '.')}")
    return names


def _transform(google, huggingface):
    return [
        *dense(f"{google}/dense", f"{huggingface}.dense"),
        *layer_norm(f"{google}/LayerNorm", f"{huggingface}.LayerNorm"),
    ]


_TASKS = [*_head("", "classifier"), *_head("cls/squad/", "qa_outputs")]

BERT = [
    *_embeddings("bert/embeddings", "bert.embeddings"),
    *_layers("bert/encoder", "bert.encoder.layer.#"),
    *dense("bert/pooler/dense", "bert.pooler.dense"),
    *_transform("cls/predictions/transform", "cls.predictions.transform"),
    Name("cls/predictions/output_bias", "cls.predictions.bias"),
    *_head("cls/seq_relationship/", "cls.seq_relationship"),
    *_TASKS,
]

_BLOCK = "bert/encoder/transformer/group_#/inner_group_#"
_ALBERT_LAYER = "albert.encoder.albert_layer_groups.#.albert_layers.#"

ALBERT = [
    *_embeddings("bert/embeddings", "albert.embeddings"),
    *dense(
        "bert/encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in"
    ),
    *dense(f"{_BLOCK}/attention_1/self/query", f"{_ALBERT_LAYER}.attention.query"),
    *dense(f"{_BLOCK}/attention_1/self/key", f"{_ALBERT_LAYER}.attention.key"),
    *dense(f"{_BLOCK}/attention_1/self/value", f"{_ALBERT_LAYER}.attention.value"),
    *dense(f"{_BLOCK}/attention_1/output/dense", f"{_ALBERT_LAYER}.attention.dense"),
    *layer_norm(f"{_BLOCK}/LayerNorm", f"{_ALBERT_LAYER}.attention.LayerNorm"),
    *dense(f"{_BLOCK}/ffn_1/intermediate/dense", f"{_ALBERT_LAYER}.ffn"),
    *dense(f"{_BLOCK}/ffn_1/intermediate/output/dense", f"{_ALBERT_LAYER}.ffn_output"),
    *layer_norm(f"{_BLOCK}/LayerNorm_1", f"{_ALBERT_LAYER}.full_layer_layer_norm"),
    *dense("bert/pooler/dense", "albert.pooler"),
    *_transform("cls/predictions/transform", "predictions"),
    Name("cls/predictions/output_bias", "predictions.bias"),
    *_head("cls/seq_relationship/", "sop_classifier.classifier"),
    *_TASKS,
]

ELECTRA = [
    *_embeddings("electra/embeddings", "electra.embeddings"),
    *dense("electra/embeddings_project", "electra.embeddings_project"),
    *_layers("electra/encoder", "electra.encoder.layer.#"),
    *dense("discriminator_predictions/dense", "discriminator_predictions.dense"),
    *dense("discriminator_predictions/dense_1", "discriminator_predictions.dense_prediction"),
]


def unknown_variable(path: object, name: str) -> InputError:
    """Creates the error for a variable in the layers of an encoder that is of no known kind."""
    return InputError(
        f"{path}: {name:.200} is in no layer of a BERT, ALBERT or ELECTRA; other encoders are not "
        "supported."
    )


def unknown_model(path: object, names: Collection[str]) -> InputError:
    """Creates the error for a checkpoint without a known encoder."""
    some = ", ".join(f"{name:.80}" for name in list(names)[:3]) or "nothing"
    return InputError(f"{path} has no BERT, ALBERT or ELECTRA, but {some}.")


def electra_generator(names: Collection[str]) -> list[Name]:
    """Returns the generator's names; it may share the discriminator's embeddings."""
    own = "generator/embeddings/word_embeddings" in names
    return [
        *_embeddings("generator/embeddings" if own else "electra/embeddings", "electra.embeddings"),
        *dense("generator/embeddings_project", "electra.embeddings_project"),
        *_layers("generator/encoder", "electra.encoder.layer.#"),
        *_transform("generator_predictions", "generator_predictions"),
        Name("generator_predictions/output_bias", "generator_lm_head.bias"),
    ]
