"""The argument parser of commands, with short and full help, defaults and suggestions."""

import argparse
import copy
import difflib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import nearest

_WIDTH = 100  # maximum width of help
_WORDS = "words_without_option"  # destination of words without an option, if the command has no such argument
# Entries of a directory that make it a model or run.
_OF_MODELS = (
    *("model", "config.json", "recipe.yaml", "adapter_config.json", "modules.json"),
    *("bert_config.json", "saved_model.pb"),
)


class Rare(str):
    """Title of an argument group. `--help` hides the group, and `--help-all` shows the group."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size((_WIDTH, 24)).columns
        super().__init__(prog, max_help_position=25, width=min(columns, _WIDTH))

    def _get_help_string(self, action):
        text = action.help or ""
        has_value = action.option_strings and action.nargs != 0
        if has_value and action.default not in (None, argparse.SUPPRESS, "", []):
            text += "; default: %(default)s"
        return text

    def _format_action_invocation(self, action):
        """Omits the option `--no-KEY` of a switch, which the title of the group explains."""
        names = action.option_strings
        if len(names) == 2 and names[1] == names[0].replace("--", "--no-", 1):
            return names[0]
        return super()._format_action_invocation(action)

    def _format_args(self, action, default_metavar):
        """Formats the values of an option with `nargs="+"` as `FILE...`."""
        if action.nargs == "+" and action.option_strings:
            return f"{action.metavar}..."
        return super()._format_args(action, default_metavar)


class CommandParser(argparse.ArgumentParser):
    """`ArgumentParser` that raises `InputError` instead of printing usage and exiting."""

    shows_all = False  # whether the help includes groups with `Rare` titles
    required: Sequence[argparse.Action] = ()  # options that the command requires

    def format_help(self) -> str:
        formatter = self._start_with_usage()
        formatter.add_text(self.description)
        for group in self._action_groups:
            if self.shows_all or not isinstance(group.title, Rare):
                formatter.start_section(group.title)
                formatter.add_text(group.description)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def format_usage(self) -> str:
        return self._start_with_usage().format_help()

    def _start_with_usage(self):
        formatter = HelpFormatter(f"{self.prog} [options]")
        actions = [a for a in self._actions if a in self.required or not a.option_strings]
        actions = list(map(copy.copy, actions))
        for action in actions:
            action.required = True  # Brackets would mean that the option may be left out.
        formatter.add_usage(self.usage, actions, [])
        return formatter

    def add_common(self) -> None:
        group = self.add_argument_group()
        hides = any(isinstance(section.title, Rare) for section in self._action_groups)
        text = "show every argument and setting" if hides else argparse.SUPPRESS
        group.add_argument("--help-all", action=_HelpAll, help=text)
        group.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        group.add_argument(
            "--debug", action="store_true", help="show tracebacks and TensorFlow's log"
        )

    def take_words(
        self,
        names: Sequence[str],
        needed: Callable[[argparse.Namespace], Sequence[str]] = lambda arguments: (),
    ) -> None:
        """Lets words without an option stand for arguments, as in `predict RUN FILE`.

        Args:
            names: Arguments, by their destination. A word is the first of them that has no value
                yet and for which it can stand: a model directory or name for the model, a file for
                examples or texts.
            needed: Returns the arguments that are needed in addition to the required ones.
        """
        self._needed = needed
        self.required = [a for a in self._actions if a.required and a.nargs != "*"]
        for action in self.required:
            action.required = False  # `complete` names all that are missing.
        self._taking = list(map(self._find_action, names))
        if not any(a.nargs in ("+", "*") for a in self._actions if not a.option_strings):
            self.add_argument(_WORDS, nargs="*", help=argparse.SUPPRESS).required = False

    def complete(self, arguments: argparse.Namespace, typed: Sequence[str]) -> None:
        """Assigns words without an option; raises `InputError` if an argument is missing.

        Args:
            arguments: Parsed arguments, to which the words are added.
            typed: The words from which they were parsed.
        """
        line = [word for word in typed if word != "--debug"]
        unplaced = []
        for word in self._remove_words(arguments):
            self._check_no_setting(word)
            free = [action for action in self._taking if not self._has_value(arguments, action)]
            positionals = [action for action in free if not action.option_strings]
            action = next((a for a in free if _can_be(a, word)), next(iter(positionals), None))
            if action is None:
                unplaced.append(word)
            else:
                _assign(self, arguments, action, word)
            if action is None or action.option_strings:
                line = [typed_word for typed_word in line if typed_word is not word]
                line += [] if action is None else [action.option_strings[0], word]
        missing = self._find_missing(arguments)
        if unplaced or missing:
            raise self._make_error(line, missing, unplaced)

    def _find_missing(self, arguments):
        needed = [*self.required, *(self._find_action(name) for name in self._needed(arguments))]
        missing = [a for a in needed if not self._has_value(arguments, a, allow_more=False)]
        order = [*self._taking, *self._actions]
        return sorted(missing, key=lambda action: (action.dest == "out", order.index(action)))

    def _make_error(self, line, missing, unplaced):
        """Returns the error with the whole command to write instead of `line`."""
        options = []
        for action in missing:
            word = next((word for word in unplaced if _can_be(action, word, is_output=True)), None)
            options.append(_format_option(action, word))
            unplaced = [candidate for candidate in unplaced if candidate is not word]
        names = [(action.option_strings or [_format_option(action)])[0] for action in missing]
        cause = f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} missing"
        if unplaced:
            cause = f"{unplaced[0]!r} belongs to no option"
        command = " ".join([f"{self.prog} {shlex.join(line)}".strip(), *options])
        return InputError(f"{cause}; write {command} (`{self.prog} --help` explains the arguments)")

    def _find_action(self, name):
        return next(action for action in self._actions if action.dest == name)

    def _check_no_setting(self, word):
        name, equals, value = word.partition("=")
        option = f"--{name.replace('_', '-')}"
        if not equals or not name.isidentifier() or os.path.exists(word):
            return
        if option in self._option_string_actions:
            self.error(f"write {option} {value}, not {word}")
        self.error(f"unrecognized arguments: {option}")

    def _remove_words(self, arguments):
        """Removes the words without an option from the arguments that take them."""
        words = []
        for action in self._taking:
            value = getattr(arguments, action.dest)
            if not action.option_strings and value is not None:
                words += value if isinstance(value, list) else [value]
                setattr(arguments, action.dest, [] if action.nargs == "+" else None)
        return words + (vars(arguments).pop(_WORDS, None) or [])

    def _has_value(self, arguments, action, allow_more=True):
        """Returns whether an argument has a value and, with `allow_more`, takes no other."""
        takes_more = allow_more and action.nargs == "+" and not action.option_strings
        return not takes_more and getattr(arguments, action.dest, None) not in (None, [])

    def error(self, message: str) -> NoReturn:
        """Raises `InputError`. For an unknown option, the message suggests a similar option."""
        unknown = re.match(r"unrecognized arguments: .*?(--[^\s=]+)", message)
        if unknown:
            options = [name for name in self._option_string_actions if name.startswith("--")]
            message = f"there is no option {unknown[1]}; {nearest(unknown[1], sorted(options))}"
        message = message.removeprefix("argument ")
        raise InputError(f"{message} (`{self.prog} --help` explains the arguments)")

    def _print_message(self, message, file=None):
        (file or sys.stderr).write(message)  # argparse would hide that the disk is full.

    def _check_value(self, action, value):
        # None is the task without a name.
        if action.choices is not None and value not in (None, *action.choices):
            hint = suggestion(value, action.choices) or f"choose from {', '.join(action.choices)}"
            raise argparse.ArgumentError(action, f"there is no {value!r}; {hint}")


class Command:
    """A command of `keras-bert`.

    Attributes:
        example: lines that show how the command is used.
        uses_tensorflow: whether TensorFlow is imported before `run`.
        tensorflow_alone: whether only TensorFlow is imported, without Keras.
        needs_tensorflow_backend: whether Keras must use TensorFlow.
        kept: message after an interruption that lists the kept files. `{out}` is replaced by
            the output directory. Default: no message.
        words: arguments that words without an option stand for; see `CommandParser.take_words`.
    """

    example = ""
    uses_tensorflow = True
    tensorflow_alone = False
    needs_tensorflow_backend = False
    kept = ""
    words: tuple[str, ...] = ()

    @property
    def settings_class(self) -> type | None:
        """Dataclass of the command's settings, or None."""
        return None

    def add_arguments(self, parser: Any) -> None:
        """Adds the arguments of the command."""

    def needed(self, arguments: argparse.Namespace) -> Sequence[str]:
        """Returns the arguments that are needed in addition to those that the parser requires."""
        return ()

    def check(self, arguments: argparse.Namespace) -> None:
        """Raises `InputError` for invalid combinations of arguments. Does not import TensorFlow."""

    def check_files(self, arguments: argparse.Namespace) -> None:
        """Reads and checks input files. Called before TensorFlow is imported."""

    def run(self, arguments: argparse.Namespace) -> None:
        """Runs the command."""


class _HelpAll(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)
        self.default = argparse.SUPPRESS

    def __call__(self, parser: Any, *ignored: Any) -> None:
        parser.shows_all = True
        parser.print_help()
        parser.exit()


def suggestion(name: object, known: Any) -> str:
    """Returns `did you mean X?` for the nearest name, or an empty string."""
    for near in difflib.get_close_matches(str(name), list(map(str, known)), n=1):
        return f"did you mean {near if near.startswith('-') else repr(near)}?"
    return ""


def _can_be(action, word, is_output=False):
    """Returns whether a word can be the value of an argument, by the type of the argument.

    With `is_output`, any word can be the name of an output.
    """
    if action.dest in ("out", "to"):
        return is_output
    kind = getattr(action.type, "completes", None)
    if kind == "model":
        return _is_model(word)
    if kind == "directory":
        return os.path.isdir(word)
    if kind == "file":
        return word == "-" or "://" in word or _has_suffix(word) or os.path.exists(word)
    return action.type is None


def _is_model(word):
    if os.path.exists(word):
        return any(os.path.exists(os.path.join(word, name)) for name in _OF_MODELS)
    is_name = "://" not in word or word.startswith(("hf://", "kaggle://"))
    return is_name and word != "-" and not _has_suffix(word) and not re.search(r"\s", word)


def _has_suffix(word):
    return Path(word).suffix[1:].isalpha()  # `v1.5` is a name.


def _assign(parser, arguments, action, word):
    if action.option_strings:
        action(parser, arguments, [word] if action.nargs == "+" else word)
    elif action.nargs == "+":
        getattr(arguments, action.dest).append(word)
    else:
        setattr(arguments, action.dest, word)


def _format_option(action, word=None):
    """Returns an option with a value, or with the placeholder of its value."""
    if word is None and hasattr(action, "instead"):
        return action.instead
    name = [action.option_strings[0]] if action.option_strings else []
    word = word or next(iter(action.choices or ()), None) or action.metavar or action.dest
    return " ".join([*name, shlex.quote(word)])
