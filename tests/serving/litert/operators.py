"""Which operators a LiteRT file has."""

import collections

from ai_edge_litert import schema_py_generated as schema

_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items()}


def operators(directory):
    """How often each operator is in a file."""
    model = schema.ModelT.InitFromPackedBuf((directory / "model.tflite").read_bytes(), 0)
    codes = [
        _NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in model.operatorCodes
    ]
    (graph,) = model.subgraphs
    return collections.Counter(codes[operator.opcodeIndex] for operator in graph.operators)


def check_builtin(directory):
    """All of them are LiteRT's own."""
    assert not {"CUSTOM", "DELEGATE"} & set(operators(directory))
