"""Commands for other machines: shown, or run one after the other."""

import shlex
import shutil
import subprocess
import sys


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
