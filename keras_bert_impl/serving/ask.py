"""Asks a SavedModel, in a process that has tensorflow and tensorflow_text alone.

`serving.check` runs this source by itself. It reads a request from stdin, JSON with `directory`,
`inputs`, a dict of lists of strings, and `sizes`, and writes to stdout, for each batch size, the
outputs of every example.
"""

import json
import sys

sys.modules["keras_bert_impl"] = None  # to import it is an error from here on

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401, the operations of tokenizers


def ask(served, inputs, size):
    """list (an example) of dicts of the outputs."""
    count = len(next(iter(inputs.values())))
    answers = []
    for start in range(0, count, size):
        batch = {name: tf.constant(rows[start : start + size]) for name, rows in inputs.items()}
        outputs = {name: output.numpy().tolist() for name, output in served(**batch).items()}
        for row in zip(*outputs.values()):
            answers.append(dict(zip(outputs, row)))
    return answers


request = json.load(sys.stdin)
model = tf.saved_model.load(request["directory"])
default = model.signatures["serving_default"]
found = [ask(default, request["inputs"], size) for size in request["sizes"]]
json.dump(found, sys.stdout, default=bytes.decode)
