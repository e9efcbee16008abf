"""Checks blocks of code on pages without running them.

Python blocks must compile. Names of this package, attributes of its modules and classes, and
keyword arguments of its functions must exist; a variable that a class or its constructor made has
the attributes of the class. Lines of `keras-bert` must be accepted by the command line's parsers.
"""

import ast
import contextlib
import importlib
import inspect
import re
import shlex

import keras_bert_impl
from tests.docs import references

PACKAGE = "keras_bert_impl"
_BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
# Functions that return an object of a class: methods of the class, and others by name.
_CONSTRUCTORS = ("from_pretrained", "from_keras_hub", "named")
_RETURNS = {"finetune": "tasks.TaskModel", "pretrain": "Pretrainer"}
# What commands stand between, and what they may begin with.
_SEPARATORS = re.compile(r"(?:^|[|;&]|\bthen\b|--)\s*(?:[A-Z_]+=\S+\s+)*keras-bert\s")
_ENDS = {"|", ">", "&", "&&", ";", "2>"}


def blocks(text, language):
    """Yields (line number, source) of the blocks of a language, without their indentation."""
    for match in _BLOCK.finditer(text):
        indent, name, body = match.groups()
        if name == language:
            line = text.count("\n", 0, match.start()) + 2
            yield line, "\n".join(row.removeprefix(indent) for row in body.split("\n"))


# === Commands ===


def commands(source):
    """Yields the `keras-bert` commands of a shell block, each as a list of words."""
    for line in re.sub(r"\\\n\s*", " ", source).split("\n"):
        for separator in _SEPARATORS.finditer(line):
            words = _words(line[separator.end() :])
            yield words[: next((i for i, word in enumerate(words) if word in _ENDS), len(words))]


def _words(text):
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|;&>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(lexer)


def check_command(words):
    """Asserts that the command line accepts a command; `...` stands for further arguments."""
    if "..." in words:
        _, parser = references.command(words[0])
        options = [word for word in words[1:] if word.startswith("--")]
        assert set(options) <= parser._option_string_actions.keys(), words
        return
    references.parse(words)


# === Python ===


class Checker(ast.NodeVisitor):
    """Visits a block; `names` are objects of the package that earlier blocks of a page defined."""

    def __init__(self, names):
        self.names = names
        self.problems = []

    def visit_ImportFrom(self, node):
        if (node.module or "").split(".")[0] != PACKAGE:
            return
        module = importlib.import_module(node.module)
        for alias in node.names:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(f"{node.module}.{alias.name}")
            try:
                self.names[alias.asname or alias.name] = getattr(module, alias.name)
            except (AttributeError, ImportError):
                self.problems.append(f"{node.module} has no {alias.name}")

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.split(".")[0] == PACKAGE:
                importlib.import_module(alias.name)
                self.names[PACKAGE] = keras_bert_impl

    def visit_Assign(self, node):
        self.generic_visit(node)
        instance_class = self._made_by(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names.pop(target.id, None)
                if instance_class is not None:
                    self.names[target.id] = _Instance(instance_class)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        self._resolve(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        function = self._resolve(node.func)
        if inspect.isclass(function):
            owner, function = function, function.__init__
        elif callable(function) and not isinstance(function, _Instance):
            owner = self._owner(node.func)
        else:
            return
        for keyword in node.keywords:
            if keyword.arg is not None and not references.accepts(owner, function, keyword.arg):
                self.problems.append(f"{ast.unparse(node.func)} has no argument {keyword.arg}")

    def _owner(self, node):
        above = self._resolve(node.value) if isinstance(node, ast.Attribute) else None
        above = above.of if isinstance(above, _Instance) else above
        return above if inspect.isclass(above) else None

    def _made_by(self, node):
        """Returns the class of the object that an expression makes, or None if unknown."""
        if not isinstance(node, ast.Call):
            return None
        function = self._resolve(node.func)
        if inspect.isclass(function):
            return function
        name = getattr(function, "__name__", None)
        if name in _CONSTRUCTORS:
            return self._owner(node.func)
        return references.find(_RETURNS[name]) if name in _RETURNS else None

    def _resolve(self, node):
        """Returns the object of the package that an expression names, or None."""
        if isinstance(node, ast.Name):
            public = node.id in keras_bert_impl.__all__
            return self.names.get(node.id, getattr(keras_bert_impl, node.id) if public else None)
        if not isinstance(node, ast.Attribute):
            return None
        above = self._resolve(node.value)
        of = above.of if isinstance(above, _Instance) else above
        if not (inspect.isclass(of) or inspect.ismodule(of)) or not _is_own(of):
            return None
        if hasattr(of, node.attr):
            return getattr(of, node.attr)
        if not isinstance(above, _Instance) or node.attr not in _set_by(of):
            self.problems.append(f"{ast.unparse(node)}: {of.__name__} has no {node.attr}")
        return None


class _Instance:
    """Stands for an object of a class."""

    def __init__(self, of):
        self.of = of


def _is_own(value):
    name = value.__name__ if inspect.ismodule(value) else value.__module__
    return name.split(".")[0] == PACKAGE


def _set_by(of):
    """Names of attributes that methods of a class set, and fields of a dataclass."""
    names = set()
    for base in of.__mro__:
        if _is_own(base):
            with contextlib.suppress(OSError):
                names |= set(re.findall(r"self\.(\w+)\s*(?::[^=\n]+)?=", inspect.getsource(base)))
        names |= set(inspect.get_annotations(base))
    return names


def check_python(source, names):
    """Returns the problems of a block, and adds to `names` what it defines."""
    checker = Checker(names)
    checker.visit(ast.parse(source))
    return checker.problems
