"""Every option, command, argument and method that a message of the package advises exists."""

import ast
import contextlib
import functools
import inspect
import re
from pathlib import Path

import keras_bert_impl
import keras_bert_impl.tasks
from keras_bert_impl.cli import main as cli
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings

PACKAGE = Path(keras_bert_impl.__file__).parent
PUBLIC = [
    getattr(module, name)
    for module in (keras_bert_impl, keras_bert_impl.tasks)
    for name in module.__all__
]
FOREIGN_OPTIONS = {"--build", "--no-deps", "--wheel-dir"}  # of Docker and pip
FOREIGN_ARGUMENTS = {
    "axis",  # keras.ops
    "clean_up_tokenization_spaces",  # transformers
    "path_initial_model_for_weight_conversion",  # PEFT
}
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_COMMAND = re.compile(r"keras-bert ([a-z][^`\n]*)")
_ARGUMENT = re.compile(r"(?<![\w.=?&\"'-])([a-z_]+)=(?=[\w\"'\[({.-])")
_ADVICE = re.compile(
    r"\b(Pass|Set|Write|Use|Omit|Try|Choose|Add|Increase|Reduce|Call)\b.*", re.DOTALL
)
# An order to lose something; "Omit the option" and "Use another name" lose nothing.
_LOSS = re.compile(
    r"(?:^|[.:;,(] |\b(?:or|and|then) )((?:(?:delete|remove|erase|clear|discard|overwrite|wipe|"
    r"reset|rm) |start (?:again|over|from scratch)).{0,40})",
    re.IGNORECASE | re.DOTALL,
)
MAY_LOSE = {
    "Remove model_devices": "an argument",
    "Remove target=": "an argument",
    "Remove one of them": "a setting of a grid",
    "Remove repeated values": "values of a grid",
    "Remove such rows": "rows of a table in memory",
    "Remove such texts": "texts in memory",
    "Remove these texts": "repeated or empty texts of a table",
    "Remove them": "HTML tags in texts",
    "remove it if files were concatenated": "a repeated header",
    "remove the label.": "an entry of `labels`",
    "Remove the stray quote": "a character of a table",
}
_METHOD = re.compile(r"(?<![\w./])(model|encoder|embedder|tokenizer|[A-Z]\w+)\.(\w+)\(")


@functools.cache
def messages():
    """Returns the place and text of each string with a space, without docstrings and HTML."""
    strings = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skipped = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                skipped.update(map(id, node.values))
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                skipped.add(id(body[0].value))
        texts = ((node, text_of(node)) for node in ast.walk(tree) if id(node) not in skipped)
        strings += [
            (f"{path.relative_to(PACKAGE)}:{node.lineno}", text)
            for node, text in texts
            if " " in text and not re.search(r"</|var\(|import |print\(", text)  # HTML and code
        ]
    return strings


def text_of(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(
            getattr(part, "value", "{}") if isinstance(part, ast.Constant) else "{}"
            for part in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def matches(pattern, only=re.compile(".*", re.DOTALL)):
    advice = [
        (place, match)
        for place, text in messages()
        for part in only.finditer(text)
        for match in pattern.findall(part[0])
    ]
    assert len(advice) > 30  # The pattern still finds the advice.
    return advice


@functools.cache
def options_of(command):
    _, parser = cli.load(command)
    return {option for action in parser._actions for option in action.option_strings}


def test_options_exist():
    options = set().union(FOREIGN_OPTIONS, *map(options_of, cli.COMMANDS))
    assert [match for match in matches(_OPTION) if match[1] not in options | {"--no-"}] == []


def test_commands_exist_and_have_the_options():
    wrong = []
    for place, line in matches(_COMMAND):
        command, *words = line.rstrip(".").split()
        options = [word.strip(".,;)'\"") for word in words if word.startswith("--")]
        if command not in cli.COMMANDS or set(options) - options_of(command):
            wrong.append((place, line))
    assert wrong == []


def test_arguments_exist():
    names = set(FOREIGN_ARGUMENTS)
    for public in (*PUBLIC, FinetuneSettings, PretrainSettings):
        methods = (
            dict(inspect.getmembers(public, callable)).values() if inspect.isclass(public) else ()
        )
        for function in (public, *methods):
            with contextlib.suppress(TypeError, ValueError):  # Some types have no signature.
                names |= set(inspect.signature(function).parameters)
    assert [match for match in matches(_ARGUMENT, _ADVICE) if match[1] not in names] == []


def test_methods_exist():
    models = [public for public in PUBLIC if inspect.isclass(public)]
    owners = {public.__name__: [public] for public in models} | {
        "model": models,
        "encoder": [keras_bert_impl.Encoder],
        "embedder": [keras_bert_impl.TextEmbedder],
        "tokenizer": [keras_bert_impl.Tokenizer],
    }
    wrong = []
    for place, (owner, name) in matches(_METHOD):
        if (
            owner in owners
            and name != "tokenizer"
            and not any(hasattr(candidate, name) for candidate in owners[owner])
        ):
            wrong.append((place, f"{owner}.{name}"))
    assert wrong == []


def test_no_message_advises_to_lose_what_a_user_made():
    orders = [(place, order) for place, text in messages() for order in _LOSS.findall(text)]
    assert [entry for entry in orders if not entry[1].startswith(tuple(MAY_LOSE))] == []
    assert all(any(order.startswith(allowed) for _, order in orders) for allowed in MAY_LOSE)
    for lost in ("Remove {} to start again.", "broken; delete {}", "remove r to", "rm -r {}"):
        assert _LOSS.search(f"no checkpoint can be read. {lost}")
