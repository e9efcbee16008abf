"""Maps the variables of a model to tensors in a checkpoint."""

import dataclasses
from collections.abc import Iterable
from typing import TypeAlias


@dataclasses.dataclass(frozen=True)
class TensorName:
    """Location of a variable in a checkpoint.

    Args:
        variable: Path of the Keras variable.
        tensor: Name of the tensor. Encoder tensors are named without the prefix, such as `bert.`,
            that they have in models with a head.
        transpose: Whether the checkpoint stores the transpose, as PyTorch does for the weights of
            linear layers.
        optional: Whether checkpoints may lack the tensor; the variable then keeps its initial
            value.
        part: Index of the variable's part in a tensor that holds several variables. Lists of names
            contain all parts, in order.
        num_parts: Number of equal parts in the tensor, along the first axis.
    """

    variable: str
    tensor: str
    transpose: bool = False
    optional: bool = False
    part: int = 0
    num_parts: int = 1


Heads: TypeAlias = dict[str, list[TensorName]]  # by head


def task_classes(prefix: str, **more: str) -> dict[str | None, str]:
    """Maps heads to classes of `transformers`; `more` are the endings of the names of others."""
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
    """Returns the name of a linear layer's matrix without a bias; see `TensorName`."""
    return TensorName(f"{ours}/kernel", f"{theirs}.weight", True, part=part, num_parts=num_parts)


def dense(ours: str, theirs: str, optional: bool = False) -> list[TensorName]:
    """Returns the two names of a linear layer."""
    return [
        TensorName(f"{ours}/kernel", f"{theirs}.weight", transpose=True, optional=optional),
        TensorName(f"{ours}/bias", f"{theirs}.bias", optional=optional),
    ]


def layer_norm(ours: str, theirs: str, optional: bool = False) -> list[TensorName]:
    """Returns the two names of a layer normalization."""
    return [
        TensorName(f"{ours}/gamma", f"{theirs}.weight", optional=optional),
        TensorName(f"{ours}/beta", f"{theirs}.bias", optional=optional),
    ]


def masked_lm(theirs: str, norm: str, bias: str) -> list[TensorName]:
    """Returns the names of a masked LM head: dense layer, layer normalization and output bias."""
    return [
        *dense("masked_lm/dense", theirs),
        *layer_norm("masked_lm/layer_norm", norm),
        TensorName("masked_lm/output_bias", bias),
    ]


def two_layers(head: str, transform: str, output: str) -> list[TensorName]:
    """Returns the names of a head's two dense layers."""
    return [*dense(f"{head}/transform", transform), *dense(f"{head}/dense", output)]


def optional(names: Iterable[TensorName]) -> list[TensorName]:
    """Returns the same names, marked as optional."""
    return [dataclasses.replace(name, optional=True) for name in names]
