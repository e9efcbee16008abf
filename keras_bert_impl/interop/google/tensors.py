"""The variables of a checkpoint of Google's, in the names and the layout of Hugging Face."""

import dataclasses
import math

from keras_bert_impl.interop.google.index import Variable
from keras_bert_impl.io.errors import InputError


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a tensor stands in a checkpoint, and how it is turned.

    Args:
        variable: str. Name of the variable.
        shape: the shape it is brought to first; None for its own.
        transpose: bool. Whether it is then transposed.
    """

    variable: str
    shape: tuple | None = None
    transpose: bool = False


class GoogleTensors:
    """The tensors of a checkpoint; each is read when it is asked for.

    Args:
        checkpoint: `Checkpoint`.
        places: dict of the name of a tensor to `Place`.

    Attributes:
        path: `Path` of the index of the checkpoint.
        header: dict of the name of each tensor to (dtype such as `"F32"`, shape).

    Raises:
        InputError: a variable has a shape that its name cannot have.
    """

    def __init__(self, checkpoint, places):
        self.path = checkpoint.path
        self._checkpoint = checkpoint
        self._places = places
        self.header = {name: self._entry(place) for name, place in places.items()}

    def _entry(self, place):
        variable = self._checkpoint.variables[place.variable]
        stored, shape = variable.shape, place.shape or variable.shape
        if math.prod(shape) != math.prod(stored) or (place.transpose and len(shape) != 2):
            raise InputError(
                f"{self.path}: tensor {place.variable} cannot have shape {stored}; it is a matrix."
            )
        return variable.dtype, shape[::-1] if place.transpose else shape

    def read(self, name):
        """The array of a tensor."""
        return self._turned(name, self._checkpoint.read(self._places[name].variable))

    def read_slot(self, name, slot):
        """What the optimizer kept of a tensor, or None where the checkpoint does not have it.

        Args:
            name: str, as in `header`.
            slot: `"adam_m"` or `"adam_v"`, the mean of the gradients and of their squares.
        """
        variable = f"{self._places[name].variable}/{slot}"
        variables = self._checkpoint.variables
        if variable not in variables:
            return None
        expected = variables[self._places[name].variable].shape
        if variables[variable].shape != expected:
            raise InputError(
                f"{self.path}: tensor {variable} must have shape {expected}. "
                f"Received: {variables[variable].shape}"
            )
        return self._turned(name, self._checkpoint.read(variable))

    @property
    def global_step(self):
        """int. Steps of training, or None where the checkpoint does not say."""
        if self._checkpoint.variables.get("global_step") != Variable("int64", ()):
            return None
        return int(self._checkpoint.read("global_step"))

    def _turned(self, name, array):
        place = self._places[name]
        array = array.reshape(place.shape or array.shape)
        return array.T if place.transpose else array
