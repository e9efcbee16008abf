"""Where the variables of a model stand in a checkpoint."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TensorName:
    """Where a variable stands in a checkpoint.

    Args:
        variable: str. Path of the Keras variable.
        tensor: str. Name of the tensor; for one of the encoder without the prefix, such as
            `bert.`, that models with a head have.
        transpose: bool. Whether the checkpoint has it the other way around, as PyTorch keeps
            the matrix of a linear layer.
        optional: bool. Whether checkpoints may lack it; the variable then keeps its fresh value.
        part: int. Which part of the tensor the variable is, where that holds several; lists of
            names have all of them, in order.
        num_parts: int. Of how many parts of equal size, along the first axis, the tensor is made.
    """

    variable: str
    tensor: str
    transpose: bool = False
    optional: bool = False
    part: int = 0
    num_parts: int = 1


def kernel(ours, theirs, part=0, num_parts=1):
    """The matrix of a linear layer without a bias; arguments as of `TensorName`."""
    return TensorName(
        f"{ours}/kernel", f"{theirs}.weight", transpose=True, part=part, num_parts=num_parts
    )


def dense(ours, theirs, optional=False):
    """The two tensors of a linear layer."""
    return [
        TensorName(f"{ours}/kernel", f"{theirs}.weight", transpose=True, optional=optional),
        TensorName(f"{ours}/bias", f"{theirs}.bias", optional=optional),
    ]


def layer_norm(ours, theirs, optional=False):
    """The two tensors of a layer normalization."""
    return [
        TensorName(f"{ours}/gamma", f"{theirs}.weight", optional=optional),
        TensorName(f"{ours}/beta", f"{theirs}.bias", optional=optional),
    ]


def optional(names):
    """The same names, of tensors that a checkpoint may lack."""
    return [dataclasses.replace(name, optional=True) for name in names]
