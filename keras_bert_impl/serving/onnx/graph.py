"""Builder of ONNX graphs: nodes, named weights and deduplicated constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The first opset with LayerNormalization; supported by ONNX Runtime since 1.12 (2022).
_OPSET, _IR_VERSION = 17, 8
_CONTRIB = "com.microsoft"
_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


class Graph:
    """Builder of an ONNX graph. Tensors are referred to by name."""

    def __init__(
        self, weights: dict[str, np.ndarray], dtype: str = "float32", fused: bool = False
    ) -> None:
        self.dtype = dtype
        self.fused = fused
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._shapes: list[onnx.ValueInfoProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}  # weights and constants by name
        self._constants: dict[tuple, str] = {}  # value -> name

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "int64") -> str:
        """Adds an input of the model; names in the shape stand for dynamic dimensions."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        return name

    def output(self, name: str, tensor: str, shape: Sequence[int | str]) -> None:
        """Marks a tensor as an output of the model, in float32."""
        self._nodes.append(helper.make_node("Cast", [tensor], [name], name, to=TensorProto.FLOAT))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def add(self, op: str, *inputs: Any, num_outputs: int = 1, **attributes) -> str:
        """Adds a node."""
        domain, _, op = op.rpartition(".")
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = f"{op}_{len(self._nodes)}"
        outputs = [name, *(f"{name}_{number}" for number in range(1, num_outputs))]
        node = helper.make_node(op, names, outputs, name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def cast(self, tensor: str, dtype: str) -> str:
        """Casts a tensor to another dtype."""
        return self.add("Cast", tensor, to=_TYPES[dtype])

    def as_float32(self, tensor: str) -> str:
        """Casts a tensor from the dtype of the graph to float32, for sums."""
        return tensor if self.dtype == "float32" else self.cast(tensor, "float32")

    def as_computed(self, tensor: str) -> str:
        """Casts a float32 tensor to the dtype of the graph."""
        return tensor if self.dtype == "float32" else self.cast(tensor, self.dtype)

    def declare(self, tensor: str, shape: Sequence[int | str]) -> None:
        """Declares the shape of a tensor in the dtype of the graph, if it cannot be inferred."""
        self._shapes.append(helper.make_tensor_value_info(tensor, _TYPES[self.dtype], shape))

    def has(self, name: str) -> bool:
        """Returns whether there is a weight with this name."""
        return name in self._weights

    def array(self, name: str) -> np.ndarray:
        """Returns a weight as a NumPy array."""
        return self._weights[name]

    def weight(self, *names: str) -> str:
        """Adds a weight in the dtype of the graph; several are concatenated on the last axis."""
        name = "+".join(names)
        if name not in self._tensors:
            array = np.concatenate([self._weights[name] for name in names], axis=-1)
            self._tensors[name] = numpy_helper.from_array(array.astype(self.dtype), name)
        return name

    def model(self) -> onnx.ModelProto:
        """Returns everything added as a model."""
        tensors = list(self._tensors.values())
        graph = helper.make_graph(
            self._nodes, "network", self._inputs, self._outputs, tensors, value_info=self._shapes
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        if any(node.domain for node in self._nodes):
            opsets.append(helper.make_opsetid(_CONTRIB, 1))
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="keras_bert_impl"
        )

    def _constant(self, value):
        if not isinstance(value, (np.ndarray, np.generic)):
            value = np.array(value, self.dtype if isinstance(value, float) else "int64")
        key = value.dtype.name, value.shape, value.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = name
            self._tensors[name] = numpy_helper.from_array(np.asarray(value), name)
        return self._constants[key]
