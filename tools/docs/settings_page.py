"""The settings reference: every field of the settings classes, from the code.

The classes with a cheap import are imported, so that types, limits and defaults are those that the
package checks. `prepare` and `LongTexts` import TensorFlow and are read with `ast`.
"""

import ast
import dataclasses
import inspect
import re
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.adapter import Adapter
from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.quickstart.settings import QuickstartSettings
from keras_bert_impl.settings import rule
from keras_bert_impl.tasks.runs.settings import FinetuneSettings, ObjectiveSettings
from keras_bert_impl.tuning.settings import TuningSettings

PACKAGE = Path(__file__).parents[2] / "keras_bert_impl"

# Title, class and where its fields are given. A subclass lists only the fields of its own.
CLASSES = [
    (
        "Fine-tuning",
        FinetuneSettings,
        "`key=value` of `keras-bert finetune`, keyword arguments of `finetune()`. The fields of "
        "[Tuning](#tuning) and [Teachers and R-Drop](#teachers-and-r-drop) are given the same way.",
    ),
    (
        "Tuning",
        TuningSettings,
        "Which weights are trained, and how fast. See [Tuning](../tuning.md).",
    ),
    (
        "Teachers and R-Drop",
        ObjectiveSettings,
        "Training signals besides the labels. See [Distillation](../distillation.md).",
    ),
    (
        "Pre-training",
        PretrainSettings,
        "`key=value` of `keras-bert pretrain`, keyword arguments of `pretrain()`. A recipe sets "
        "them too: [Recipes](../recipes.md).",
    ),
    (
        "Adaptation",
        AdaptationSettings,
        "`key=value` of `keras-bert adapt` and, with `--adapt TEXT`, of `keras-bert finetune`.",
    ),
    ("Quickstart", QuickstartSettings, "`key=value` of `keras-bert quickstart`."),
    ("Adapter", Adapter, "Arguments of `Adapter`, for `from_pretrained(..., adapter=...)`."),
    ("EncoderConfig", EncoderConfig, "Arguments of `EncoderConfig`, and the keys of its dict."),
]
# Title, file, class or function and where its arguments are given.
STATIC = [
    ("LongTexts", "tasks/base/long_texts.py", "LongTexts", "Arguments of `LongTexts`."),
    (
        "prepare",
        "pretraining/corpus/preparation.py",
        "prepare",
        "Arguments of `prepare()`. The options of `keras-bert prepare` are described under "
        "[Prepare records](../pretraining.md#prepare-records).",
    ),
]
# Fields that their class's docstring does not describe, or describes under another field.
ELSEWHERE = {
    "weight_decay": "Weight decay of the optimizer, decoupled from the gradient.",
    "beta_2": "Decay rate of the optimizer's second moments.",
    "epsilon": "Added to the denominator of the optimizer's update.",
    "spike_factor": "Factor of the mean loss above which a loss is a spike; see `on_spike`.",
    "seed": "Seed of all random choices.",
    "vocabulary_size": "Size of the vocabulary to learn.",
    "pretraining_steps": "Steps of pre-training.",
    "finetuning_epochs": "Epochs of fine-tuning.",
    "max_examples_per_row": "Maximum number of examples packed into a row.",
}


class Row(NamedTuple):
    """One setting, in words."""

    name: str
    kind: str
    default: str
    sentence: str


def page() -> str:
    """Returns the Markdown of the settings reference."""
    parts = [
        "# Settings",
        "Every setting with its type, its default and what it does. A value outside of its type is "
        "an error before any work is done. On the command line `null` stands for `None` and lists "
        "are written `[a,b]`.",
    ]
    for title, rows, where in sections():
        table = ["| name | type | default | what it does |", "|---|---|---|---|"]
        table += [f"| `{r.name}` | {r.kind} | {r.default} | {r.sentence} |" for r in rows]
        parts += [f"## {title}", where, "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def sections() -> list[tuple[str, list[Row], str]]:
    """Returns (title, rows, where the settings are given) of every section."""
    found = [(title, class_rows(kind), where) for title, kind, where in CLASSES]
    return found + [(title, static_rows(*at), where) for title, *at, where in STATIC]


def class_rows(settings_class: type) -> list[Row]:
    """Returns the rows of the fields that a dataclass itself declares."""
    own = inspect.get_annotations(settings_class)
    hints = typing.get_type_hints(settings_class, include_extras=True)
    fields = [field for field in dataclasses.fields(settings_class) if field.name in own]
    sentences = sentences_of(settings_class.__doc__ or "")
    return [
        Row(f.name, _cell(rule(hints[f.name])), _default(f.default), _sentence(f.name, sentences))
        for f in fields
    ]


def static_rows(file: str, name: str) -> list[Row]:
    """Returns the rows of a class or function, from its source."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    node = next(n for n in tree.body if getattr(n, "name", None) == name)
    sentences = sentences_of(ast.get_docstring(node) or "")
    return [
        Row(n, f"`{_cell(ast.unparse(kind))}`", default, _sentence(n, sentences))
        for n, kind, default in _arguments(node)
    ]


def _arguments(node: ast.stmt) -> Iterable[tuple[str, ast.expr, str]]:
    if isinstance(node, ast.ClassDef):
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                yield line.target.id, line.annotation, _code(line.value)
    elif isinstance(node, ast.FunctionDef):
        arguments = node.args.args
        missing = len(arguments) - len(node.args.defaults)
        for argument, value in zip(arguments, [*[None] * missing, *node.args.defaults]):
            if argument.annotation is not None:
                yield argument.arg, argument.annotation, _code(value)


def sentences_of(docstring: str) -> dict[str, str]:
    """Returns a dict of argument to its text in the `Args:` of a docstring."""
    _, _, rest = inspect.cleandoc(docstring).partition("\nArgs:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        entry = re.fullmatch(r"    (\w+(?:, \w+)*): (.*)", line)
        if entry:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        elif line.strip():
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def _sentence(name: str, sentences: dict[str, str]) -> str:
    text = sentences.get(name) or ELSEWHERE.get(name, "")
    return _cell(text[:1].upper() + text[1:])


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "required"
    return f"`{_cell(repr(value))}`"


def _code(value: ast.expr | None) -> str:
    return "required" if value is None else f"`{_cell(ast.unparse(value))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
