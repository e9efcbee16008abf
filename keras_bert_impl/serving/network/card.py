"""Model cards of models that were exported to another runtime."""

from pathlib import Path

import keras

from keras_bert_impl.cards import export_card
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
    sections = [
        "## Use",
        "The inputs are token ids, `[batch, length]` of any size, which the tokenizer in this folder "
        f"makes. In Python:\n\n```python\n{use}```",
        "## Check",
        check,
    ]
    note = f". Exported to {how} by keras_bert_impl {__version__}."
    return export_card(model, name, encoder_of(model).config, note, sections, run)
