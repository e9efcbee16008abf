"""Runs the shell blocks of a page as they stand, and compares their output with what it shows."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"```bash\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
_NUMBER = re.compile(r"\d\.\d\S*\d|\d+")
_INSTALLS = re.compile(r"\bpip |\btools/")  # needs a network, or takes minutes
_PORT = 8501


def steps(page: Path) -> list[tuple[str, str]]:
    """Returns (commands, shown output or "") of the blocks of a page that do not install."""
    text = page.read_text(encoding="utf-8")
    return [block for block in _BLOCK.findall(text) if not _INSTALLS.search(block[0])]


def environment(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    """Returns environment variables with which a shell finds `keras-bert`, and other variables."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "keras-bert"
    line = f'exec "{sys.executable}" -m keras_bert_impl.cli.main "$@"'
    command.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    command.chmod(0o755)
    paths = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **variables, **paths}


def run_page(page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Runs the blocks one after the other; a server runs until the last of them has ended."""
    with contextlib.ExitStack() as servers:
        for commands, documented in steps(page):
            if "keras-bert serve" in commands:
                servers.enter_context(_server(commands, folder, environment))
            else:
                compare(
                    documented,
                    *run(commands, folder, environment, "..." in documented.splitlines()),
                )


def run(
    commands: str, folder: Path, environment: dict[str, str], as_terminal: bool = False
) -> tuple[str, str]:
    """Runs the commands of a block in a folder.

    Returns:
        (stdout, stderr); with `as_terminal` (both in the order of a terminal, "").
    """
    process = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder, env=environment | {"PYTHONUNBUFFERED": "1"}, text=True, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if as_terminal else subprocess.PIPE,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr or process.stdout
    return process.stdout, process.stderr or ""


@contextlib.contextmanager
def _server(commands, folder, environment):
    """Runs commands of which the last serves, until the server answers."""
    server = subprocess.Popen(
        ["bash", "-e", "-c", commands],
        cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert any(line.startswith("serving http") for line in server.stdout)
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # the shell and the server that it runs
        server.wait()


def port_is_free() -> bool:
    """Whether the port of the pages can be served on."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", _PORT)) != 0


def compare(documented: str, stdout: str, stderr: str) -> None:
    """Asserts that commands printed what a page shows: all of it, or without the lines of `...`."""
    expected = documented.splitlines()
    if "..." not in expected:
        assert not documented or list(map(_words, expected)) == list(
            map(_words, stdout.splitlines())
        )
        printed = stdout.splitlines()
    else:
        printed = (stderr + stdout).splitlines()
    lines = iter(printed)
    for line in expected:
        assert line == "..." or any(_is_like(line, printed_line) for printed_line in lines), (
            line,
            printed,
        )


def _words(line):
    return _NUMBER.sub("#", line)


def _is_like(line, printed):
    """Whether lines are equal but for rounding: decimals differ by at most 0.02."""
    pairs = zip(_NUMBER.findall(line), _NUMBER.findall(printed), strict=False)
    return _words(line) == _words(printed) and all(
        abs(float(a) - float(b)) <= 0.02 if "." in a and "." in b else a == b for a, b in pairs
    )
