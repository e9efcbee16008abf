"""Model cards: `README.md` of a model directory, with metadata for the Hugging Face hub."""

import hashlib
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from keras_bert_impl.checkpoints.published import MODELS, published_name
from keras_bert_impl.utils.io.paths import local_path, without_folders
from keras_bert_impl.utils.io.reading import file_within
from keras_bert_impl.utils.io.run_files import read_run_file
from keras_bert_impl.utils.lazy import PACKAGE
from keras_bert_impl.utils.version import __version__

CARD = "README.md"
_CACHED = re.compile("models--([^/]+?)--([^/]+)/snapshots/")
_MARK = "<!-- Model card of keras_bert_impl. An edited card is not overwritten. {} -->\n"


def write_card(
    model: Any,
    new: Path,
    directory: str | Path,
    base: str | Path | None = None,
    run: str | Path | None = None,
) -> None:
    """Writes the model card, unless a user wrote or edited `README.md`."""
    path = local_path(directory).absolute()
    name = path.parent.name if path.name == "model" else path.name
    save_card(model_card(model, name, base, run), new, path)


def save_card(text: str, new: Path, directory: str | Path) -> None:
    if _can_replace(local_path(directory) / CARD):
        (Path(new) / CARD).write_text(text + _mark(text), encoding="utf-8")


def model_card(
    model: Any, name: str, base: str | Path | None = None, run: str | Path | None = None
) -> str:
    kind, config = type(model).__name__, _get_config(model)
    published = published_base(base, run)
    limit = getattr(model, "max_length", config.max_length)
    parts = [
        front_matter(model, base, run),
        f"# {as_text(name)}",
        f"{_describe(f'`{kind}`', config)}, for sequences of up to {limit} tokens. Written by "
        f"keras_bert_impl {__version__}.",
    ]
    if published:
        parts.append(f"The base model is {published}.")
    parts += ["## Use", _write_example(model, name)]
    only_here = model.only_here() if hasattr(model, "only_here") else []
    if only_here:
        parts.append(in_transformers(only_here))
    parts += [*label_sections(model), *run_sections(run)]
    parts += ["## License", license_of(published)]
    parts += [
        "## Limits",
        f"Longer texts are truncated to {limit} tokens, unless the model reads windows. The "
        "scores may be lower for texts that differ from the validation set. The model has not been "
        "examined for bias. Add to this card what you know about the use of the model.",
    ]
    return "\n\n".join(parts) + "\n"


def export_card(
    model: Any,
    name: str,
    config: Any,
    note: str,
    sections: Sequence[str],
    run: str | Path | None = None,
) -> str:
    parts = [
        front_matter(model, run=run),
        f"# {as_text(name)}",
        f"{_describe(type(model).__name__, config)}{note}",
        *sections,
        *label_sections(model),
        *run_sections(run),
        "## License",
        license_of(published_base(run=run)),
    ]
    return "\n\n".join(parts) + "\n"


def in_transformers(settings: Sequence[str]) -> str:
    """Returns a warning about settings that `transformers` does not support."""
    return (
        f"Other libraries do not support {', '.join(settings)}: `transformers` and "
        "`sentence-transformers` ignore these settings, may initialize weights randomly, and "
        "return different scores. Load the model with keras_bert_impl, or export the model."
    )


def _describe(kind, config):
    article = "An" if kind.strip("`")[0] in "AEIOU" else "A"
    return (
        f"{article} {kind} on a {config.architecture} encoder with {config.num_layers} layers, "
        f"hidden size {config.hidden_dim} and {config.num_parameters():,} parameters"
    )


def front_matter(model: Any, base: str | Path | None = None, run: str | Path | None = None) -> str:
    """Returns the YAML metadata of a model for the hub."""
    lines = ["library_name: keras"]
    task = getattr(model, "pipeline_tag", "")
    if task:
        lines.append(f"pipeline_tag: {task}")
    published = published_base(base, run)
    if published:
        lines.append(f"license: {MODELS[published].license.lower()}")
        lines.append(f"base_model: {MODELS[published].hub}")
    lines += ["tags:", "- keras", "- tensorflow", f"- {_get_config(model).architecture}"]
    return "\n".join(["---", *lines, "---"])


def published_base(base: str | Path | None = None, run: str | Path | None = None) -> str | None:
    """Returns the published model from which a model was fine-tuned, or None."""
    if base is None and run is not None and (local_path(run) / "recipe.yaml").is_file():
        base = read_run_file(local_path(run) / "recipe.yaml").get("model")
    address = str(base)
    cached = _CACHED.search(address.replace("\\", "/"))
    if cached:
        return published_name("/".join(cached.groups()))
    if not address.startswith("hf://") and os.path.exists(address):
        return None
    return published_name(address.removeprefix("hf://").partition("@")[0])


def label_sections(model: Any) -> list[str]:
    labels: Sequence[str] | None = getattr(model, "labels", None)
    return ["## Labels", ", ".join(map(as_code, labels))] if labels else []


def run_sections(run: str | Path | None) -> list[str]:
    """Returns the sections with the scores, data and settings of a run."""
    parts: list[str] = []
    if run is None:
        return parts
    data, recipe = (file_within(run, name) for name in ("data.json", "recipe.yaml"))
    scores = _read_scores(local_path(run))
    if scores:
        rows = [
            f"| {as_text(metric)} | {_format_score(score)} |" for metric, score in scores.items()
        ]
        parts += ["## Scores", "\n".join(["| metric | score |", "|---|---|", *rows])]
    if data.is_file():
        rows = [
            f"- {as_text(split)}: {part.integer('examples'):,} examples of "
            + as_text(json.dumps(without_folders(part.text("source")), ensure_ascii=False))
            for split, part in read_run_file(data, lambda contents: [*contents.mappings()])
            if "examples" in part
        ]
        parts += ["## Data", "\n".join(rows)]
    settings = _read_settings(data, recipe)
    if settings:
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        parts += ["## Settings", as_code_block(text.strip(), "yaml")]
    return parts


def _read_settings(data, recipe):
    if data.is_file() and "changed_settings" in read_run_file(data):
        settings = dict(read_run_file(data).mapping("changed_settings"))  # without the defaults
    else:
        settings = dict(read_run_file(recipe)) if recipe.is_file() else {}
    paths = [name for name in ("model", "teacher") if isinstance(settings.get(name), str)]
    return settings | {name: without_folders(settings[name]) for name in paths}


def _read_scores(run):
    path = file_within(run, "scores.json")
    if not path.is_file():
        return {}
    scores = read_run_file(path)
    # A set of runs has the scores of its best run.
    if "best" not in scores:
        return scores
    return read_run_file(file_within(run, f"{scores.text('best')}/scores.json"))


def _format_score(score):
    return "not defined" if isinstance(score, float) and math.isnan(score) else score


def license_of(published: str | None) -> str:
    if published is None:
        return "Unknown: it depends on the base model and on the data."
    terms = MODELS[published].license
    return (
        f"The weights of {published} were published under {terms}. The training data may have "
        "additional license terms."
    )


def _get_config(model):
    return getattr(model, "encoder", model).config


def _write_example(model, name):
    called = getattr(model, "example_call", "")
    if "{mask}" in called:
        called = called.format(mask=model.tokenizer.id_to_token(model.tokenizer.mask_id))
    kind = "Encoder" if type(model).__name__ == "Pretrainer" else type(model).__name__
    lines = [
        _write_import(type(model), kind),
        f"model = {kind}.from_pretrained({json.dumps(name, ensure_ascii=not name.isprintable())})",
        f"print(model{called})" if called else "model.summary()",
    ]
    return as_code_block("\n".join(lines), "python")


def _write_import(model_class, kind):
    module = model_class.__module__
    if module.startswith(f"{PACKAGE}."):
        return f"from {PACKAGE} import {kind}"
    if module == "__main__" or getattr(sys.modules.get(module), kind, None) is not model_class:
        return f"# {kind} is defined in the program that saved this model. Import {kind} here."
    return f"from {module} import {kind}"


# === Escaping for Markdown ===


def as_text(value: Any) -> str:
    """Converts any value to one line of plain Markdown, which is also valid in a table."""
    # An underscore inside a word needs no escape.
    marks = r"([\\`*{}\[\]<>#|&~]|(?<![^\W_])_|_(?![^\W_]))"
    return re.sub(marks, r"\\\1", _escape_unprintable(value))


def as_code(value: Any) -> str:
    """Converts any value to inline code in Markdown, for use outside tables."""
    text = _escape_unprintable(value)
    fence = "`" * (_measure_longest_fence(text) + 1)
    space = " " if not text.strip() or "`" in (text[:1], text[-1:]) else ""
    return f"{fence}{space}{text}{space}{fence}"


def as_code_block(text: str, language: str) -> str:
    """Returns a code block whose fence does not occur in the text."""
    fence = "`" * max(3, _measure_longest_fence(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _measure_longest_fence(text):
    return max(map(len, re.findall("`+", text)), default=0)


def _escape_unprintable(value):
    """Escapes line breaks and other unprintable characters, except zero-width joiners."""
    return "".join(
        c if c.isprintable() or c in "\u200c\u200d" else c.encode("unicode_escape").decode()
        for c in str(value)
    )


def _mark(text):
    return "\n" + _MARK.format(hashlib.sha256(text.encode()).hexdigest()[:16])


def _can_replace(path):
    if not path.exists():
        return True
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    start = text.rfind("\n<!-- ")
    return start >= 0 and text[start:] == _mark(text[:start])
