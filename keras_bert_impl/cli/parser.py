"""The argument parser of commands, with short and full help, defaults and suggestions."""

import argparse
import difflib
import re
import shutil
from typing import Any, NoReturn

from keras_bert_impl.first_guesses import nearest
from keras_bert_impl.io.errors import InputError

_WIDTH = 100  # maximum width of help


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

    def format_help(self) -> str:
        formatter = self._begun_with_usage()
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
        return self._begun_with_usage().format_help()

    def _begun_with_usage(self):
        formatter = HelpFormatter(f"{self.prog} [options]")
        needed = [a for a in self._actions if a.required or not a.option_strings]
        formatter.add_usage(self.usage, needed, [])
        return formatter

    def add_common(self) -> None:
        group = self.add_argument_group()
        hides = any(isinstance(one.title, Rare) for one in self._action_groups)
        text = "show every argument and setting" if hides else argparse.SUPPRESS
        group.add_argument("--help-all", action=_HelpAll, help=text)
        group.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        group.add_argument(
            "--debug", action="store_true", help="show tracebacks and TensorFlow's log"
        )

    def error(self, message: str) -> NoReturn:
        """Raises `InputError`. For an unknown option, the message suggests a similar option."""
        pair = re.match(r"unrecognized arguments: (\w+)=(.+)", message)
        option = f"--{pair[1].replace('_', '-')}" if pair else ""
        unknown = re.match(r"unrecognized arguments: .*?(--[^\s=]+)", message)
        if pair and option in self._option_string_actions:
            message = f"write {option} {pair[2]}, not {pair[1]}={pair[2]}"
        elif pair or unknown:
            option = option or unknown[1]
            known = [name for name in self._option_string_actions if name.startswith("--")]
            message = f"there is no option {option}; {nearest(option, sorted(known))}"
        word = re.fullmatch(r"unrecognized arguments: ([^-\s]\S*)(?: .*)?", message)
        if word and not pair and not unknown:
            message = f"unexpected argument {word[1]!r}: options have one value. Join several files"
        message = message.removeprefix("argument ")
        raise InputError(f"{message} (`{self.prog} --help` explains the arguments)")

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
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
    """

    example = ""
    uses_tensorflow = True
    tensorflow_alone = False
    needs_tensorflow_backend = False
    kept = ""

    @property
    def settings_class(self) -> type | None:
        """Dataclass of the command's settings, or None."""
        return None

    def add_arguments(self, parser: Any) -> None:
        """Adds the arguments of the command."""

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
