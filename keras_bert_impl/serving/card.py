"""Model cards of exported models: signatures, scores and settings."""

from pathlib import Path

import tensorflow as tf

from keras_bert_impl.cards import export_card
from keras_bert_impl.serving.signatures import Functions, Signatures
from keras_bert_impl.version import __version__


def model_card(
    name: str, signatures: Signatures, functions: Functions, run: str | Path | None = None
) -> str:
    """Returns the text of a model card, in Markdown."""
    note = (
        f", for rows of up to {signatures.max_length} tokens. Exported by keras_bert_impl "
        f"{__version__} with TensorFlow {tf.__version__}."
    )
    sections = ["## Use", _use(functions), "## Signatures", _table(functions)]
    return export_card(signatures.model, name, signatures.config, note, sections, run)


def _use(functions):
    """Returns how to call the model, if it takes strings, in three lines of Python."""
    specs = tf.nest.flatten(functions["serving_default"].structured_input_signature)
    called = ".structured_input_signature"  # of token ids
    if all(spec.dtype == tf.string for spec in specs):
        called = "(" + ", ".join(f'{spec.name}=tf.constant(["a text"])' for spec in specs) + ")"
    return f"""\
`keras-bert serve` and TensorFlow Serving take the folder above this one. In Python:

```python
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load("path/to/this/folder")
print(model.signatures["serving_default"]{called})
```"""


def _table(functions):
    rows = ["| signature | inputs | outputs |", "|---|---|---|"]
    for name, function in functions.items():
        inputs = tf.nest.flatten(function.structured_input_signature)
        inputs = ", ".join(map(_shown, [spec.name for spec in inputs], inputs))
        outputs = function.structured_outputs
        outputs = ", ".join(map(_shown, outputs, outputs.values()))
        rows.append(f"| `{name}` | {inputs} | {outputs} |")
    return "\n".join(rows)


def _shown(name, spec):
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    return f"`{name}` {spec.dtype.name} [{shape}]"
