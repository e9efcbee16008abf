"""Compares the outputs of a SavedModel and of the original model.

The SavedModel runs in a process that does not import this package.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.serving.graph_operations import GRAPH, read_graph
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.serving.saved_model import example_strings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import local_path

BATCH_SIZES = (1, 8, 64)
TOLERANCE = 1e-5
# bfloat16 rounds a logit of 10 by up to 0.02 in each of several operations.
_TOLERANCE_IN_HALF = 0.1
_SECONDS = 1800


def tolerance_of(signatures: Signatures) -> float:
    """Returns the largest difference that rounding can cause in the model's dtype."""
    policy: Any = signatures.encoder.dtype_policy
    return TOLERANCE if policy.compute_dtype == "float32" else _TOLERANCE_IN_HALF


def largest_difference(
    signatures: Signatures,
    directory: str | Path,
    inputs: dict[str, list] | None = None,
    trust_graph: bool = False,
) -> float:
    """Returns the largest difference between the outputs of a SavedModel and the original model.

    The SavedModel runs in batches of 1, 8 and 64, in a process that imports only TensorFlow and, if
    installed, TF-Text.

    Args:
        directory: the SavedModel.
        inputs: inputs of `serving_default`. Default: a few built-in texts.
        trust_graph: whether to run operations that exports of this package do not use.

    Returns:
        The largest absolute difference, or infinity if strings or integers differ.

    Raises:
        InputError: the directory is not a SavedModel with string inputs, its graph has other
            operations than exports of this package, or the SavedModel fails.
    """
    inputs = inputs or example_strings(signatures)
    expected = signatures.reference(**inputs)
    outputs = _run_model(directory, inputs, trust_graph)
    try:
        return float(np.max([difference_of_rows(expected, rows) for rows in outputs]))
    except (LookupError, ValueError) as error:
        raise InputError(f"{directory} has other outputs than the model.") from error


def difference_of_rows(expected: Sequence[dict], received: Sequence[dict]) -> float:
    differences = [
        _measure_difference(value, row[name])
        for expected_row, row in zip(expected, received, strict=True)
        for name, value in expected_row.items()
    ]
    return float(np.max(differences))


def _run_model(directory, inputs, trust_graph):
    directory = local_path(directory)
    if not (directory / GRAPH).is_file():
        raise InputError(f"{directory} is not a SavedModel: it does not contain saved_model.pb.")
    read_graph(directory, trust_graph)
    request = {"directory": str(directory), "inputs": inputs, "sizes": BATCH_SIZES}
    source = Path(__file__).with_name("ask.py").read_text(encoding="utf-8")
    try:
        process = subprocess.run(
            [sys.executable, "-c", source],
            input=json.dumps(request),
            capture_output=True,
            check=True,
            text=True,
            timeout=_SECONDS,
        )
        return json.loads(process.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        lines = str(getattr(error, "stderr", None) or type(error).__name__).strip().splitlines()
        raise InputError(f"{directory} cannot be run: {lines[-1]}") from error


def _measure_difference(expected, received):
    expected, received = _convert_to_array(expected), _convert_to_array(received)
    if not expected.size:
        return 0.0
    received = received[(*(slice(size) for size in expected.shape), ...)]
    if expected.shape != received.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.all(expected == received) else float("inf")
    differences = np.abs(expected.astype("float64") - received)
    return float("inf") if np.isnan(differences).any() else float(differences.max())


def _convert_to_array(values):
    array = np.asarray(values)
    # NumPy string arrays strip trailing NULs.
    return np.asarray(values, object) if array.dtype.kind in "US" else array
