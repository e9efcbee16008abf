"""TensorFlow 1 variable names of BERT, ALBERT and ELECTRA.

Checkpoints and TF Hub modules have identical variable names. If a model was fine-tuned from a TF
Hub module, the encoder variables have a prefix such as `module/`, and the classifier is
`output_weights`.
"""

import dataclasses
import math
import re
from collections.abc import Collection

import numpy as np

from keras_bert_impl.checkpoints.interop.google.checkpoint import Checkpoint, Variable
from keras_bert_impl.utils.errors import InputError


@dataclasses.dataclass(frozen=True)
class Name:
    """The Google and Hugging Face names of a tensor.

    Args:
        google: Name of the variable in a Google checkpoint; `#` stands for a number.
        huggingface: Hugging Face name of the tensor, with a `#` for each `#` of `google`.
        transpose: Whether the Hugging Face tensor is the transposed matrix.
    """

    google: str
    huggingface: str
    transpose: bool = False

    def to_huggingface(self, name: str) -> str | None:
        """Converts a Google name; returns None if the name does not match `google`."""
        return _rename(name, self.google, self.huggingface)

    def to_google(self, name: str) -> str | None:
        """Converts a Hugging Face name; returns None if the name does not match `huggingface`."""
        return _rename(name, self.huggingface, self.google)


def _rename(name, source, target):
    match = re.fullmatch(re.escape(source).replace(r"\#", r"(\d{1,9})"), name)
    if match is None:
        return None
    for number in match.groups():
        target = target.replace("#", number, 1)
    return target


def dense(google: str, huggingface: str) -> list[Name]:
    return [
        Name(f"{google}/kernel", f"{huggingface}.weight", transpose=True),
        Name(f"{google}/bias", f"{huggingface}.bias"),
    ]


def layer_norm(google: str, huggingface: str) -> list[Name]:
    return [
        Name(f"{google}/gamma", f"{huggingface}.weight"),
        Name(f"{google}/beta", f"{huggingface}.bias"),
    ]


def _list_head(google, huggingface):
    return [
        Name(f"{google}output_weights", f"{huggingface}.weight"),
        Name(f"{google}output_bias", f"{huggingface}.bias"),
    ]


def _list_embeddings(google, huggingface):
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    return [
        *(Name(f"{google}/{table}", f"{huggingface}.{table}.weight") for table in tables),
        *layer_norm(f"{google}/LayerNorm", f"{huggingface}.LayerNorm"),
    ]


def _list_layers(google, huggingface):
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


def _list_transform(google, huggingface):
    return [
        *dense(f"{google}/dense", f"{huggingface}.dense"),
        *layer_norm(f"{google}/LayerNorm", f"{huggingface}.LayerNorm"),
    ]


_TASKS = [*_list_head("", "classifier"), *_list_head("cls/squad/", "qa_outputs")]

BERT = [
    *_list_embeddings("bert/embeddings", "bert.embeddings"),
    *_list_layers("bert/encoder", "bert.encoder.layer.#"),
    *dense("bert/pooler/dense", "bert.pooler.dense"),
    *_list_transform("cls/predictions/transform", "cls.predictions.transform"),
    Name("cls/predictions/output_bias", "cls.predictions.bias"),
    *_list_head("cls/seq_relationship/", "cls.seq_relationship"),
    *_TASKS,
]

_BLOCK = "bert/encoder/transformer/group_#/inner_group_#"
_ALBERT_LAYER = "albert.encoder.albert_layer_groups.#.albert_layers.#"

ALBERT = [
    *_list_embeddings("bert/embeddings", "albert.embeddings"),
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
    *_list_transform("cls/predictions/transform", "predictions"),
    Name("cls/predictions/output_bias", "predictions.bias"),
    *_list_head("cls/seq_relationship/", "sop_classifier.classifier"),
    *_TASKS,
]

ELECTRA = [
    *_list_embeddings("electra/embeddings", "electra.embeddings"),
    *dense("electra/embeddings_project", "electra.embeddings_project"),
    *_list_layers("electra/encoder", "electra.encoder.layer.#"),
    *dense("discriminator_predictions/dense", "discriminator_predictions.dense"),
    *dense("discriminator_predictions/dense_1", "discriminator_predictions.dense_prediction"),
]


def unknown_variable(path: object, name: str) -> InputError:
    return InputError(
        f"{path}: {name:.200} is not a variable of BERT, ALBERT or ELECTRA; other encoders are not "
        "supported."
    )


def unknown_model(path: object, names: Collection[str]) -> InputError:
    some = ", ".join(f"{name:.80}" for name in list(names)[:3]) or "nothing"
    return InputError(f"{path} does not contain a BERT, ALBERT or ELECTRA model. Found: {some}.")


def electra_generator(names: Collection[str]) -> list[Name]:
    has_embeddings = "generator/embeddings/word_embeddings" in names
    return [
        *_list_embeddings(
            "generator/embeddings" if has_embeddings else "electra/embeddings", "electra.embeddings"
        ),
        *dense("generator/embeddings_project", "electra.embeddings_project"),
        *_list_layers("generator/encoder", "electra.encoder.layer.#"),
        *_list_transform("generator_predictions", "generator_predictions"),
        Name("generator_predictions/output_bias", "generator_lm_head.bias"),
    ]


@dataclasses.dataclass(frozen=True)
class Location:
    """Variable of a checkpoint, with its conversion to a tensor.

    Args:
        variable: Name of the variable.
        shape: New shape, or None if the variable is not reshaped.
        transpose: Whether to transpose after reshaping.
    """

    variable: str
    shape: tuple[int, ...] | None = None
    transpose: bool = False


class GoogleTensors:
    """A `TensorFile` for a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, locations: dict[str, Location]) -> None:
        self.path = checkpoint.path
        self._checkpoint = checkpoint
        self._locations = locations
        self.header = {
            name: self._describe_tensor(location) for name, location in locations.items()
        }

    def _describe_tensor(self, location):
        variable = self._checkpoint.variables[location.variable]
        stored, shape = variable.shape, location.shape or variable.shape
        if math.prod(shape) != math.prod(stored) or (location.transpose and len(shape) != 2):
            raise InputError(
                f"{self.path}: tensor {location.variable} must be a matrix. Received: shape "
                f"{stored}"
            )
        return variable.dtype, shape[::-1] if location.transpose else shape

    def read(self, name: str) -> np.ndarray:
        return self._convert_array(name, self._checkpoint.read(self._locations[name].variable))

    def read_slot(self, name: str, slot: str) -> np.ndarray | None:
        """Returns the optimizer's slot variable for a tensor, or None."""
        variable = f"{self._locations[name].variable}/{slot}"
        variables = self._checkpoint.variables
        if variable not in variables:
            return None
        expected = variables[self._locations[name].variable].shape
        if variables[variable].shape != expected:
            raise InputError(
                f"{self.path}: tensor {variable} must have shape {expected}. "
                f"Received: {variables[variable].shape}"
            )
        return self._convert_array(name, self._checkpoint.read(variable))

    @property
    def global_step(self) -> int | None:
        """Number of training steps, or None if it is unknown."""
        if self._checkpoint.variables.get("global_step") != Variable("int64", ()):
            return None
        return int(self._checkpoint.read("global_step"))

    def _convert_array(self, name, array):
        location = self._locations[name]
        array = array.reshape(location.shape or array.shape)
        return array.T if location.transpose else array


# Variables of a training run that are not part of the model.
_OF_THE_RUN = re.compile(r"(.*/)?(adam_[mv]|Adam(_1)?|beta[12]_power|global_step)")
_IN_THE_ENCODER = re.compile("(bert|electra|generator)/encoder/")
_ELECTRA_SCOPES = {
    False: ("generator/", "generator_predictions/"),
    True: ("electra/encoder/", "electra/embeddings_project/", "discriminator_predictions/"),
}


def named_locations(checkpoint: Checkpoint, generator: bool) -> tuple[str, dict[str, Location]]:
    """Detects the model type of a checkpoint, and finds the variable for each tensor.

    Returns:
        (`model_type`, {tensor name: `Location`}). Unknown variables keep their names.
    """
    variables = _index_by_short_name(checkpoint)
    model_type, names = _detect_names(checkpoint, variables, generator)
    hidden: tuple[str, ...] = _ELECTRA_SCOPES[generator] if model_type == "electra" else ()
    locations = {}
    for short, variable in sorted(variables.items()):
        if _OF_THE_RUN.fullmatch(short) or short.startswith(hidden):
            continue
        candidates = ((name, name.to_huggingface(short)) for name in names)
        name, renamed = next(((n, r) for n, r in candidates if r), (None, variable))
        slot = short.rpartition("/")[0] in variables  # The variable is a slot of an optimizer.
        if name is None and _IN_THE_ENCODER.match(short) and not slot:
            raise unknown_variable(checkpoint.path, variable)
        locations[renamed] = Location(variable, transpose=name is not None and name.transpose)
    return model_type, locations


def _index_by_short_name(checkpoint):
    """Returns the variable names in the checkpoint, keyed by the name without the scope."""
    scope = _find_scope(checkpoint)
    variables = {name.removeprefix(scope): name for name in checkpoint.variables}
    for short, name in sorted(variables.items()):
        if short != name and short in checkpoint.variables:
            raise InputError(
                f"{checkpoint.path} has both {short} and {name}; a checkpoint with two encoders "
                "is not supported."
            )
        if re.search(r"/part_\d+$", name):
            raise InputError(
                f"{checkpoint.path}: tensor {name} is a part of a partitioned variable; save it "
                "as a single variable in the same scope."
            )
    return variables


def _find_scope(checkpoint):
    """Returns the prefix of the encoder's variable names: empty, or a scope such as `module/`."""
    words = re.compile(r"(.*/)?(bert|electra)/embeddings/word_embeddings")
    tables = [match for match in map(words.fullmatch, sorted(checkpoint.variables)) if match]
    if len(tables) > 1:
        raise InputError(
            f"{checkpoint.path} has {tables[0][0]:.200} and {tables[1][0]:.200}; a checkpoint with "
            "two encoders is not supported."
        )
    return tables[0][1] or "" if tables else ""


def _detect_names(
    checkpoint: Checkpoint, variables: dict[str, str], generator: bool
) -> tuple[str, list[Name]]:
    scopes = {"/".join(name.split("/")[:3]) for name in variables}
    electra = any(scope.startswith("electra/") for scope in scopes)
    if generator and not any(scope.startswith("generator/") for scope in scopes):
        raise InputError(f"{checkpoint.path} has no ELECTRA generator.")
    if electra:
        return "electra", electra_generator(variables) if generator else ELECTRA
    if "bert/encoder/transformer" in scopes:
        return "albert", ALBERT
    if any(scope.startswith("bert/") for scope in scopes):
        return "bert", BERT
    raise unknown_model(checkpoint.path, sorted(variables))
