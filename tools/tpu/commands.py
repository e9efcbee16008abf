"""Commands for other machines: their arguments checked; shown, or run one after the other."""

import argparse
import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BETWEEN_LOOKS = 0.1  # seconds
_PATIENCE = 10  # seconds that a process has to end


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


def end_on_signals():
    """From now on SIGTERM and SIGHUP end this process as Ctrl-C does: by way of every `finally`."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


@contextlib.contextmanager
def signals_held():
    """Signals that arrive inside the block are handled behind it."""
    held = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for number in held:
        signal.raise_signal(number)


def run(commands, dry_run, own_session=False):
    """Runs commands until one fails, or prints them.

    Args:
        commands: list of lists of str.
        dry_run: bool. Whether to print them alone.
        own_session: bool. Whether Ctrl-C in the terminal does not reach them.

    Returns:
        int. 0, or the status of the command that failed.
    """
    for command in commands:
        print(shown(command), flush=True)
        if dry_run:
            continue
        status = run_together([command], own_session=own_session)
        if status:
            print(f"error: status {status} of the command above", file=sys.stderr)
            return status
    return 0


def run_together(commands, own_session=False, **how):
    """Runs commands at the same time until all have ended, or one has failed.

    Those that still run are ended, also where this process is.

    Args:
        commands, own_session: see `run`.
        how: arguments of `subprocess.Popen`.

    Returns:
        int. 0, or the status of the command that failed; 127 where a program is not there.
    """
    missing = next((c[0] for c in commands if shutil.which(c[0]) is None), None)
    if missing:
        print(f"error: there is no {missing} on this machine", file=sys.stderr)
        return 127
    processes = []
    try:
        for command in commands:
            # A signal in the middle would leave a process that nobody knows.
            with signals_held():
                processes.append(subprocess.Popen(command, start_new_session=own_session, **how))
        while True:
            statuses = [process.poll() for process in processes]
            failed = [status for status in statuses if status]
            if failed or None not in statuses:
                return failed[0] if failed else 0
            # Not `wait`: a signal that comes just before it has begun does not end it.
            time.sleep(_BETWEEN_LOOKS)
    finally:
        with signals_held():
            _end(processes)


def _end(processes):
    for process in processes:
        process.terminate()  # of one that has ended nothing
    end = time.monotonic() + _PATIENCE
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _interrupt(*_):
    raise KeyboardInterrupt
