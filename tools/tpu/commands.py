"""Commands for other machines: their arguments checked; shown, or run one after the other."""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


class Parser(argparse.ArgumentParser):
    """Says an error on one line, and exits with status 2."""

    def __init__(self, description):
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def matching(pattern, what):
    """An argparse type: text that is wholly a regular expression.

    Args:
        pattern: str. No match may begin with `-`, or another program takes it for an option.
        what: str, for the message, such as `"a zone such as us-central2-b"`.
    """

    def checked(text):
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return text

    return checked


def whole_number(most=None):
    """An argparse type: an int from 1, up to `most`."""

    def checked(text):
        number = int(text) if re.fullmatch("[0-9]{1,18}", text) else 0
        if not 0 < number <= (most or number):
            limit = f"from 1 to {most}" if most else "of at least 1"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {limit}")
        return number

    return checked


def checkout(text):
    """The whole path of a checkout of this package, which no program takes for an option or host.

    Raises:
        ArgumentTypeError: there is none.
    """
    path = Path(text).resolve()
    if not (path / "pyproject.toml").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a checkout with a pyproject.toml")
    return str(path)


def shown(command):
    """str. A command as a shell takes it.

    Args:
        command: list of str.
    """
    return shlex.join(command)


def split(arguments):
    """(arguments before `--`, the command behind it), two lists of str."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def run(commands, dry_run):
    """Runs commands until one fails, or prints them.

    Args:
        commands: list of lists of str.
        dry_run: bool. Whether to print them alone.

    Returns:
        int. 0, or the status of the command that failed.
    """
    for command in commands:
        print(shown(command), flush=True)
        if dry_run:
            continue
        if shutil.which(command[0]) is None:
            print(f"error: there is no {command[0]} on this machine", file=sys.stderr)
            return 127
        status = subprocess.run(command).returncode
        if status:
            print(f"error: status {status} of the command above", file=sys.stderr)
            return status
    return 0
