"""Model cards of exported models: signatures, scores and settings."""

import json
from pathlib import Path

import tensorflow as tf

from keras_bert_impl.io.reading import read_json, read_text
from keras_bert_impl.serving.signatures import Functions, Signatures
from keras_bert_impl.version import __version__


def model_card(
    name: str, signatures: Signatures, functions: Functions, run: str | Path | None = None
) -> str:
    """Returns the text of a model card, in Markdown.

    Args:
        name: model name.
        functions: result of `signatures.functions`.
        run: run directory, if there is one.
    """
    model = type(signatures.model).__name__
    config = signatures.config
    parts = [
        f"# {name}",
        f"A {model} on a {config.architecture} encoder with {config.num_layers} layers, hidden "
        f"size {config.hidden_dim} and {config.num_parameters():,} parameters, for rows of up to "
        f"{signatures.max_length} tokens. Exported by keras_bert_impl {__version__} with "
        f"TensorFlow {tf.__version__}.",
        "## Signatures",
        _table(functions),
    ]
    labels = getattr(signatures.model, "labels", None)
    if labels:
        parts += ["## Labels", ", ".join(f"`{label}`" for label in labels)]
    if run is not None:
        parts += _of_run(Path(run))
    return "\n\n".join(parts) + "\n"


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


def _of_run(run):
    """Returns the sections with scores, data and settings of a run directory, if available."""
    parts = []
    scores = run / "scores.json"
    if scores.is_file():
        found = read_json(scores)
        rows = [f"| {metric} | {found.number(metric)} |" for metric in found]
        parts += ["## Scores", "\n".join(["| metric | score |", "|---|---|", *rows])]
    data = run / "data.json"
    if data.is_file():
        rows = [
            f"- {split}: {part.integer('examples'):,} examples of {json.dumps(part.text('source'))}"
            for split, part in read_json(data).mappings()
            if "examples" in part
        ]
        parts += ["## Data", "\n".join(rows)]
    recipe = run / "recipe.yaml"
    if recipe.is_file():
        parts += ["## Settings", f"```yaml\n{read_text(recipe).strip()}\n```"]
    return parts
