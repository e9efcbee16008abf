"""Builder of ONNX graphs: nodes, named weights and deduplicated constants."""

import numpy as np
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
    """Builder of an ONNX graph. Tensors are referred to by name, a str.

    Args:
        weights: dict of name to NumPy array; only those that are used are written.
        dtype: str, `"float32"` or `"float16"`, of weights and computation.
        fused: bool. Whether to use operators of ONNX Runtime (`com.microsoft`) for attention,
            embeddings, GELU and normalization, instead of only those of the ONNX standard.

    Example:
        import onnx
        from keras_bert_impl.serving.onnx.graph import Graph
        graph = Graph({"kernel": np.ones((2, 3), "float32")})
        rows = graph.input("rows", ["batch", 2], "float32")
        graph.output("sums", graph.add("MatMul", rows, graph.weight("kernel")), ["batch", 3])
        onnx.save(graph.model(), "model.onnx")
    """

    def __init__(self, weights, dtype="float32", fused=False):
        self.dtype = dtype
        self.fused = fused
        self._weights = weights
        self._nodes, self._inputs, self._outputs, self._shapes = [], [], [], []
        self._tensors = {}  # name -> TensorProto of a weight or a constant
        self._constants = {}  # value -> name

    def input(self, name, shape, dtype="int64"):
        """Adds an input of the model.

        Args:
            name: str.
            shape: list of int, or of str for dynamic dimensions.
            dtype: str.
        """
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        return name

    def output(self, name, tensor, shape):
        """Marks a tensor as an output of the model, in float32."""
        self._nodes.append(helper.make_node("Cast", [tensor], [name], name, to=TensorProto.FLOAT))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def add(self, op, *inputs, num_outputs=1, **attributes):
        """Adds a node.

        Args:
            op: str. An operator of the standard, or `"com.microsoft.NAME"`.
            *inputs: tensor names, "" for none, or constants: NumPy arrays and scalars keep their
                dtype, floats get the dtype of the graph, ints and lists of int become int64.
            num_outputs: int. Number of outputs; the first is returned.
            **attributes: of the operator.

        Returns:
            str. Name of the output tensor.
        """
        domain, _, op = op.rpartition(".")
        inputs = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = f"{op}_{len(self._nodes)}"
        outputs = [name, *(f"{name}_{number}" for number in range(1, num_outputs))]
        node = helper.make_node(op, inputs, outputs, name, domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def cast(self, tensor, dtype):
        """Casts a tensor to another dtype."""
        return self.add("Cast", tensor, to=_TYPES[dtype])

    def as_float32(self, tensor):
        """Casts a tensor from the dtype of the graph to float32, for sums."""
        return tensor if self.dtype == "float32" else self.cast(tensor, "float32")

    def as_computed(self, tensor):
        """Casts a float32 tensor to the dtype of the graph."""
        return tensor if self.dtype == "float32" else self.cast(tensor, self.dtype)

    def declare(self, tensor, shape):
        """Declares the shape of a tensor in the dtype of the graph, if it cannot be inferred."""
        self._shapes.append(helper.make_tensor_value_info(tensor, _TYPES[self.dtype], shape))

    def has(self, name):
        """Returns whether there is a weight with this name."""
        return name in self._weights

    def array(self, name):
        """Returns a weight as a NumPy array."""
        return self._weights[name]

    def weight(self, *names):
        """Adds a weight in the dtype of the graph; several are concatenated on the last axis."""
        name = "+".join(names)
        if name not in self._tensors:
            array = np.concatenate([self._weights[name] for name in names], axis=-1)
            self._tensors[name] = numpy_helper.from_array(array.astype(self.dtype), name)
        return name

    def model(self):
        """Returns the `onnx.ModelProto` of everything added."""
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
