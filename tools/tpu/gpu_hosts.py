#!/usr/bin/env python
"""Runs a training command on several GPU hosts over `ssh`, as workers of a `TF_CONFIG`.

    python tools/tpu/gpu_hosts.py node-1 node-2 --dry-run -- venv/bin/keras-bert pretrain \
        /shared/records --out /shared/run --strategy multi_worker

Host names are names for `ssh`, and the hosts must be able to reach each other under these names.
The first host is the chief. All hosts run the same command, so they need the same programs and a
shared file system. If a host fails, all hosts are stopped, and the next run resumes from the
checkpoint. `--set-up` first copies this package to the hosts and installs it.
"""

import argparse
import json
import shlex
import subprocess
import sys

import commands

_PORT = 12345


def config(hosts: list[str], index: int, port: int) -> str:
    """Returns the `TF_CONFIG` of a worker.

    Args:
        hosts: list of `host` or `user@host`.
        index: index of the worker in `hosts`.
        port: port on which each worker listens.
    """
    addresses = [f"{host.rpartition('@')[2]}:{port}" for host in hosts]
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})


def set_up(hosts: list[str], source: str) -> list[list[str]]:
    """Returns commands that copy a checkout to all hosts and install it there."""
    install = "python3 -m venv venv && venv/bin/pip install ./source 'tensorflow[and-cuda]'"
    steps = []
    for host in hosts:
        steps.append(
            ["rsync", "--archive", "--delete", "--exclude=.venv", f"{source}/", f"{host}:source/"]
        )
        steps.append(["ssh", host, install])
    return steps


def workers(hosts: list[str], command: list[str], port: int) -> list[list[str]]:
    """Returns the command of each worker.

    A command gets a terminal, so that the worker ends together with its connection.
    """
    return [
        [
            "ssh",
            "-tt",
            host,
            f"TF_CONFIG={shlex.quote(config(hosts, index, port))} {shlex.join(command)}",
        ]
        for index, host in enumerate(hosts)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Returns the status of the commands."""
    parser = commands.Parser(__doc__)
    host = commands.matching(
        r"([A-Za-z_][\w.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*", "a host such as node-1"
    )
    parser.add_argument("hosts", nargs="+", type=host)
    parser.add_argument(
        "--port", type=commands.whole_number(2**16 - 1), default=_PORT, help=f"default: {_PORT}"
    )
    parser.add_argument(
        "--set-up", action="store_true", help="first install this package on the hosts"
    )
    parser.add_argument("--source", default=".", help="the checkout to copy; default: .")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands without running them"
    )
    arguments = sys.argv[1:] if arguments is None else arguments
    tool_arguments, command = commands.split(arguments)
    options = parser.parse_args(tool_arguments)
    if not command:
        parser.error("the command is missing; write it after --")
    names = [host.rpartition("@")[2] for host in options.hosts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        parser.error(f"the host {twice} is repeated")
    if options.set_up:
        try:
            source = commands.checkout(options.source)
        except argparse.ArgumentTypeError as error:
            parser.error(f"argument --source: {error}")
    together = workers(options.hosts, command, options.port)
    commands.end_on_signals()
    try:
        if options.set_up:
            status = commands.run(set_up(options.hosts, source), options.dry_run)
            if status:
                return status
        for worker_command in together:
            print(commands.shown(worker_command), flush=True)
        if options.dry_run:
            return 0
        return commands.run_together(together, stdin=subprocess.DEVNULL)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
