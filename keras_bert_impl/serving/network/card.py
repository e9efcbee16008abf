"""Model cards of models that were exported to another runtime."""

from pathlib import Path

import keras

from keras_bert_impl.cards import (
    front_matter,
    label_sections,
    license_of,
    published_base,
    run_sections,
)
from keras_bert_impl.serving.network.networks import encoder_of
from keras_bert_impl.version import __version__


def model_card(
    model: keras.Model,
    name: str,
    how: str,
    use: str,
    check: str,
    run: str | Path | None = None,
) -> str:
    """Returns the text of a model card, in Markdown.

    Args:
        name: of the model.
        how: format and precision, such as `"ONNX in fp32"`.
        use: lines of Python that load the files.
        check: what the comparison with the model found.
        run: run directory, if there is one.
    """
    config = encoder_of(model).config
    parts = [
        front_matter(model, run=run),
        f"# {name}",
        f"A {type(model).__name__} on a {config.architecture} encoder with {config.num_layers} "
        f"layers, hidden size {config.hidden_dim} and {config.num_parameters():,} parameters. "
        f"Exported to {how} by keras_bert_impl {__version__}.",
        "## Use",
        "The inputs are token ids, `[batch, length]` of any size, which the tokenizer in this folder "
        f"makes. In Python:\n\n```python\n{use}```",
        "## Check",
        check,
        *label_sections(model),
        *run_sections(run),
        "## License",
        license_of(published_base(run=run)),
    ]
    return "\n\n".join(parts) + "\n"
