"""Runs a SavedModel in a process that does not import this package.

`serving.check` runs this file as a script. The script reads a JSON request with `directory`,
`inputs` (a dict of lists of strings) and `sizes` (batch sizes) from stdin. For each batch size, the
script writes the outputs of each example to stdout.
"""

import contextlib
import json
import sys

sys.modules["keras_bert_impl"] = None  # makes any import of this package fail

import tensorflow as tf  # noqa: E402

with contextlib.suppress(ImportError, tf.errors.NotFoundError):
    import tensorflow_text  # noqa: F401, registers tokenizer operations


def ask(served: tf.types.experimental.ConcreteFunction, inputs: dict, size: int) -> list[dict]:
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
answers_per_size = [ask(default, request["inputs"], size) for size in request["sizes"]]
json.dump(answers_per_size, sys.stdout, default=bytes.decode)
