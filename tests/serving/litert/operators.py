"""Lists the operators of a LiteRT file."""

import collections

from ai_edge_litert import schema_py_generated as schema

_NAMES = {number: name for name, number in vars(schema.BuiltinOperator).items()}


def operators(directory):
    """Counts each operator in a file."""
    model = schema.ModelT.InitFromPackedBuf((directory / "model.tflite").read_bytes(), 0)
    codes = [
        _NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in model.operatorCodes
    ]
    (graph,) = model.subgraphs
    return collections.Counter(codes[operator.opcodeIndex] for operator in graph.operators)


def check_builtin(directory):
    """Checks that all operators are LiteRT built-ins."""
    assert not {"CUSTOM", "DELEGATE"} & set(operators(directory))
