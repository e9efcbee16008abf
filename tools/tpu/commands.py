"""Commands for other machines: checks their arguments, and prints or runs them."""

import argparse
import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BETWEEN_LOOKS = 0.1  # seconds
_PATIENCE = 10  # seconds until a process must have ended


class Parser(argparse.ArgumentParser):
    """Prints an error on one line, and exits with status 2."""

    def __init__(self, description: str) -> None:
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def matching(pattern: str, description: str) -> Callable[[str], str]:
    """Returns an argparse type for texts that fully match a regular expression.

    Args:
        pattern: a match must not begin with `-`, because other programs would read it as an
            option.
        description: for the message, such as `"a zone such as us-central2-b"`.
    """

    def checked(text):
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r} is not {description}")
        return text

    return checked


def whole_number(most: int | None = None) -> Callable[[str], int]:
    """Returns an argparse type of integers from 1 to `most`."""

    def checked(text):
        number = int(text) if re.fullmatch("[0-9]{1,18}", text) else 0
        if not 0 < number <= (most or number):
            limit = f"from 1 to {most}" if most else "of at least 1"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {limit}")
        return number

    return checked


def checkout(text: str) -> str:
    """argparse type for a checkout of this package.

    Returns the absolute path, which other programs cannot read as an option or host.
    """
    path = Path(text).resolve()
    if not (path / "pyproject.toml").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a checkout with a pyproject.toml")
    return str(path)


def shown(command: list[str]) -> str:
    """Returns a command in shell syntax."""
    return shlex.join(command)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments before `--` and the command after it."""
    if "--" not in arguments:
        return arguments, []
    index = arguments.index("--")
    return arguments[:index], arguments[index + 1 :]


def end_on_signals() -> None:
    """Handles SIGTERM and SIGHUP like Ctrl-C, so that every `finally` block runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise_interrupt)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Context manager that delays signals until its end."""
    held: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for held_number in held:
        signal.raise_signal(held_number)


def run(commands: list[list[str]], dry_run: bool, own_session: bool = False) -> int:
    """Prints commands and runs them one after the other until a command fails.

    Args:
        dry_run: whether to print the commands without running them.
        own_session: whether to protect the commands from Ctrl-C in the terminal.

    Returns:
        0, or the status of the command that failed.
    """
    for command in commands:
        print(shown(command), flush=True)
        if dry_run:
            continue
        status = run_together([command], own_session=own_session)
        if status:
            print(f"error: the command above failed with status {status}", file=sys.stderr)
            return status
    return 0


def run_together(commands: list[list[str]], own_session: bool = False, **how) -> int:
    """Runs commands in parallel until all have ended or one has failed.

    If one has failed, the other commands are stopped. The commands are also stopped if this process
    is stopped.

    Args:
        commands, own_session: see `run`.
        how: arguments of `subprocess.Popen`.

    Returns:
        0, or the status of the command that failed; 127 if a program is missing.
    """
    missing = next((c[0] for c in commands if shutil.which(c[0]) is None), None)
    if missing:
        print(f"error: {missing} is not installed on this machine", file=sys.stderr)
        return 127
    processes = []
    try:
        for command in commands:
            # after a signal between these two lines, the process would not be in the list
            with signals_held():
                processes.append(subprocess.Popen(command, start_new_session=own_session, **how))
        while True:
            statuses = [process.poll() for process in processes]
            failed = [status for status in statuses if status]
            if failed or None not in statuses:
                return failed[0] if failed else 0
            # not `wait`, which a signal that arrives just before the call does not interrupt
            time.sleep(_BETWEEN_LOOKS)
    finally:
        with signals_held():
            _stop_processes(processes)


def _stop_processes(processes):
    for process in processes:
        process.terminate()  # does nothing if the process has ended
    end = time.monotonic() + _PATIENCE
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _raise_interrupt(*_):
    raise KeyboardInterrupt
