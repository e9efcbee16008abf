"""The settings reference: every field of the settings classes, from the code.

Settings classes are imported, so that types, limits and defaults are the same as in the package.
`prepare` and `LongTexts` would import TensorFlow, so they are read with `ast`.
"""

import ast
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.cli.settings import sentences_of, settings_of, title_of
from keras_bert_impl.pretraining.settings import AdaptationSettings, PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings, ObjectiveSettings
from keras_bert_impl.tasks.base.options import WindowSettings
from keras_bert_impl.training.tuning.settings import TuningSettings
from keras_bert_impl.utils.settings import rule

PACKAGE = Path(__file__).parents[2] / "keras_bert_impl"

# (title, class, text about where to set the fields). A subclass lists only the fields that it
# adds.
CLASSES = [
    (
        "Fine-tuning",
        FinetuneSettings,
        "`--key value` of `keras-bert finetune`, or keyword arguments of `finetune()`. This also "
        "applies to the fields under [Tuning](#tuning) and [Teachers and "
        "R-Drop](#teachers-and-r-drop).",
    ),
    *(
        (
            title_of(kind),
            kind,
            "Settings of some tasks, which are set in the same way as the settings of fine-tuning.",
        )
        for kind in FinetuneSettings.__mro__[1:]
        if issubclass(kind, WindowSettings) and settings_of(kind)
    ),
    (
        "Tuning",
        TuningSettings,
        "Trained weights and learning rates. See [Parameter-efficient "
        "fine-tuning](../parameter-efficient.md).",
    ),
    (
        "Teachers and R-Drop",
        ObjectiveSettings,
        "Additional training signals. See [Distillation](../distillation.md).",
    ),
    (
        "Pre-training",
        PretrainSettings,
        "`--key value` of `keras-bert pretrain`, or keyword arguments of `pretrain()`. A recipe "
        "sets them too: [Recipes](../recipes.md).",
    ),
    (
        "Adaptation",
        AdaptationSettings,
        "`--key value` of `keras-bert adapt` and, with `--adapt TEXT`, of `keras-bert finetune`.",
    ),
    ("Adapter", Adapter, "Arguments of `Adapter`, for `from_pretrained(..., adapter=...)`."),
    ("EncoderConfig", EncoderConfig, "Arguments of `EncoderConfig`, and the keys of its dict."),
]
# (title, file, class or function, text about where to set the arguments)
STATIC = [
    ("LongTexts", "tasks/base/long_texts.py", "LongTexts", "Arguments of `LongTexts`."),
    (
        "prepare",
        "pretraining/corpus/preparation.py",
        "prepare",
        "Arguments of `prepare()`. The options of `keras-bert prepare` are described under "
        "[Large corpora](../large-corpora.md).",
    ),
]


class Row(NamedTuple):
    """A row of the table."""

    name: str
    kind: str
    default: str
    sentence: str


def page() -> str:
    """Returns the Markdown of the settings reference."""
    parts = [
        "# Settings",
        "Every setting with its type, its default and what it does. Invalid values raise an "
        "error before any work starts. On the command line, write `null` for `None`, and write "
        "lists as `[a,b]`.",
    ]
    for title, rows, where in sections():
        table = ["| name | type | default | what it does |", "|---|---|---|---|"]
        table += [f"| `{r.name}` | {r.kind} | {r.default} | {r.sentence} |" for r in rows]
        parts += [f"## {title}", where, "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def sections() -> list[tuple[str, list[Row], str]]:
    """Returns (title, rows, text about where to set the settings) for every section."""
    class_sections = [(title, class_rows(kind), where) for title, kind, where in CLASSES]
    return class_sections + [(title, static_rows(*at), where) for title, *at, where in STATIC]


def class_rows(settings_class: type) -> list[Row]:
    """Returns the rows for the fields of a dataclass, without inherited fields."""
    return [
        Row(s.name, _escape_cell(rule(s.annotation)), _default(s.default), _escape_cell(s.text))
        for s in settings_of(settings_class)
    ]


def static_rows(file: str, name: str) -> list[Row]:
    """Returns the rows of a class or function, from its source."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    node = next(n for n in tree.body if getattr(n, "name", None) == name)
    sentences = sentences_of(ast.get_docstring(node) or "")
    return [
        Row(n, f"`{_escape_cell(ast.unparse(kind))}`", default, _escape_cell(sentences.get(n, "")))
        for n, kind, default in _read_arguments(node)
    ]


def _read_arguments(node: ast.stmt) -> Iterable[tuple[str, ast.expr, str]]:
    if isinstance(node, ast.ClassDef):
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                yield line.target.id, line.annotation, _format_code(line.value)
    elif isinstance(node, ast.FunctionDef):
        arguments = node.args.args
        missing = len(arguments) - len(node.args.defaults)
        for argument, value in zip(arguments, [*[None] * missing, *node.args.defaults]):
            if argument.annotation is not None:
                yield argument.arg, argument.annotation, _format_code(value)


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "required"
    return f"`{_escape_cell(repr(value))}`"


def _format_code(value: ast.expr | None) -> str:
    return "required" if value is None else f"`{_escape_cell(ast.unparse(value))}`"


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")
