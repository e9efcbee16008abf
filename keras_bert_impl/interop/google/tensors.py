"""Presents the variables of a Google checkpoint with Hugging Face names and layout."""

import dataclasses
import math

import numpy as np

from keras_bert_impl.interop.google.checkpoint import Checkpoint
from keras_bert_impl.interop.google.index import Variable
from keras_bert_impl.io.errors import InputError


@dataclasses.dataclass(frozen=True)
class Location:
    """Location of a tensor in a checkpoint, and how to convert it.

    Args:
        variable: Name of the variable.
        shape: New shape; None to keep the variable's shape.
        transpose: Whether to transpose after reshaping.
    """

    variable: str
    shape: tuple[int, ...] | None = None
    transpose: bool = False


class GoogleTensors:
    """The tensors of a checkpoint, as a `TensorFile`."""

    def __init__(self, checkpoint: Checkpoint, locations: dict[str, Location]) -> None:
        self.path = checkpoint.path
        self._checkpoint = checkpoint
        self._locations = locations
        self.header = {name: self._entry(location) for name, location in locations.items()}

    def _entry(self, location):
        variable = self._checkpoint.variables[location.variable]
        stored, shape = variable.shape, location.shape or variable.shape
        if math.prod(shape) != math.prod(stored) or (location.transpose and len(shape) != 2):
            raise InputError(
                f"{self.path}: tensor {location.variable} cannot have shape {stored}; it is a matrix."
            )
        return variable.dtype, shape[::-1] if location.transpose else shape

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor as an array."""
        return self._turned(name, self._checkpoint.read(self._locations[name].variable))

    def read_slot(self, name: str, slot: str) -> np.ndarray | None:
        """Returns the optimizer's slot variable of a tensor, or None if the checkpoint lacks it."""
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
        return self._turned(name, self._checkpoint.read(variable))

    @property
    def global_step(self) -> int | None:
        """Number of training steps, or None if the checkpoint does not state it."""
        if self._checkpoint.variables.get("global_step") != Variable("int64", ()):
            return None
        return int(self._checkpoint.read("global_step"))

    def _turned(self, name, array):
        location = self._locations[name]
        array = array.reshape(location.shape or array.shape)
        return array.T if location.transpose else array
