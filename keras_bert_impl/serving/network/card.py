"""Model cards of models that were exported to another runtime."""

import json
from pathlib import Path

import keras

from keras_bert_impl.cards import as_code, as_code_block, export_card
from keras_bert_impl.serving.network.networks import encoder_of
from keras_bert_impl.version import __version__


def model_card(
    model: keras.Model,
    name: str,
    how: str,
    use: str,
    check: str,
    run: str | Path | None = None,
    has_tokenizer: bool = True,
) -> str:
    """Returns the text of a model card, in Markdown."""
    made = ", which the tokenizer in this folder makes" if has_tokenizer else ""
    sections = [
        "## Use",
        f"The inputs are token ids, `[batch, length]` of any size{made}. In Python:\n\n"
        + as_code_block(use.rstrip(), "python"),
        *_before_tokenization(model),
        "## Check",
        check,
    ]
    note = f". Exported to {how} by keras_bert_impl {__version__}."
    return export_card(model, name, encoder_of(model).config, note, sections, run)


def _before_tokenization(model):
    """Returns what a client does to a text first, which the files of a tokenizer cannot express."""
    prompt = getattr(model, "prompts", {}).get(getattr(model, "default_prompt_name", None), "")
    lines = []
    if prompt:
        shown = as_code(json.dumps(prompt, ensure_ascii=False))
        lines.append(f"Put the prompt {shown} before each text; the tokenizer does not.")
    if getattr(model, "do_lower_case", False):
        lines.append("Convert each text to lower case before it is tokenized.")
    return lines
