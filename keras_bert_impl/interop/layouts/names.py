"""Maps the variables of a model to tensors in a checkpoint."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TensorName:
    """Location of a variable in a checkpoint.

    Args:
        variable: str. Path of the Keras variable.
        tensor: str. Name of the tensor. Encoder tensors are named without the prefix, such as
            `bert.`, that they have in models with a head.
        transpose: bool. Whether the checkpoint stores the transpose, as PyTorch does for the
            weights of linear layers.
        optional: bool. Whether checkpoints may lack the tensor; the variable then keeps its
            initial value.
        part: int. Index of the variable's part in a tensor that holds several variables. Lists of
            names contain all parts, in order.
        num_parts: int. Number of equal parts in the tensor, along the first axis.
    """

    variable: str
    tensor: str
    transpose: bool = False
    optional: bool = False
    part: int = 0
    num_parts: int = 1


def kernel(ours, theirs, part=0, num_parts=1):
    """Returns the name of a linear layer's matrix without a bias; see `TensorName`."""
    return TensorName(
        f"{ours}/kernel", f"{theirs}.weight", transpose=True, part=part, num_parts=num_parts
    )


def dense(ours, theirs, optional=False):
    """Returns the two names of a linear layer."""
    return [
        TensorName(f"{ours}/kernel", f"{theirs}.weight", transpose=True, optional=optional),
        TensorName(f"{ours}/bias", f"{theirs}.bias", optional=optional),
    ]


def layer_norm(ours, theirs, optional=False):
    """Returns the two names of a layer normalization."""
    return [
        TensorName(f"{ours}/gamma", f"{theirs}.weight", optional=optional),
        TensorName(f"{ours}/beta", f"{theirs}.bias", optional=optional),
    ]


def optional(names):
    """Returns the same names, marked as optional."""
    return [dataclasses.replace(name, optional=True) for name in names]
