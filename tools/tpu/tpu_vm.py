#!/usr/bin/env python
"""Creates a Cloud TPU, sets it up, runs a command on it, and deletes it, by `gcloud`.

    python tools/tpu/tpu_vm.py job --name bert --zone us-central2-b --type v4-8 --bucket my-bucket \
        --dry-run -- keras-bert pretrain bucket/records --out bucket/run --recipe bert_base

`job` is `create`, `set-up`, `run` and `delete`, each of which is a command of its own, too; the TPU is
deleted even if a command before fails, unless `--keep` is given. `job` deletes only what it created: it
labels its TPU, and leaves one alone that was there under this name. `--dry-run` prints all commands and
runs none. The bucket is mounted as `bucket` in the home directory of every host, so that records and
run directories are paths. A command that was interrupted is given again: the run goes on.
"""

import argparse
import re
import shlex
import subprocess
import sys
import uuid
from typing import NamedTuple

import commands

_TENSORFLOW = "2.20.0"  # the newest with a build for TPUs
_LIBTPU = "0.0.14"  # later ones fit its requirements, and end the process: functions have gone
# Generation -> (what the number behind it counts a chip, chips of a host in a slice of several
# hosts, the most chips of one host).
_GENERATIONS = {
    "v2": (2, 4, 4),
    "v3": (2, 4, 4),
    "v4": (2, 4, 4),
    "v5p": (2, 4, 4),
    "v5litepod": (1, 4, 8),
    "v6e": (1, 4, 8),
}
_LABEL = "keras-bert-job"
_IMAGES = {"v5p": "v2-alpha-tpuv5", "v5litepod": "v2-alpha-tpuv5-lite", "v6e": "v2-alpha-tpuv6e"}


class Slice(NamedTuple):
    """What the name of an accelerator type says.

    Attributes:
        generation: str.
        num_chips, num_hosts: ints.
    """

    generation: str
    num_chips: int
    num_hosts: int

    @classmethod
    def of(cls, accelerator_type):
        """The slice of a type such as `v4-32`, or an `ArgumentTypeError`."""
        found = re.fullmatch("([a-z0-9]+)-([1-9][0-9]{0,5})", accelerator_type)
        if not found or found[1] not in _GENERATIONS:
            raise argparse.ArgumentTypeError(
                f"{accelerator_type!r} is no type of TPU: one of {', '.join(_GENERATIONS)}, then - "
                "and a number, as in v4-8"
            )
        per_chip, of_host, most_of_one = _GENERATIONS[found[1]]
        chips, rest = divmod(int(found[2]), per_chip)
        if rest or not chips:
            raise argparse.ArgumentTypeError(f"{accelerator_type} has no whole number of chips")
        return cls(found[1], chips, 1 if chips <= most_of_one else -(-chips // of_host))

    @property
    def image(self):
        """str. The software of the hosts: that of several has the servers of the others' TPUs."""
        if self.num_hosts > 1:
            return f"tpu-vm-tf-{_TENSORFLOW}-pod-pjrt"
        return _IMAGES.get(self.generation, "tpu-ubuntu2204-base")


def create(options, label=None):
    """Commands that make the TPU, with a label of this job if one is given."""
    command = ["gcloud", "compute", "tpus", "tpu-vm", "create", options.name, *_place(options)]
    command += [f"--labels={_LABEL}={label}"] * bool(label)
    command += [f"--accelerator-type={options.type}", f"--version={Slice.of(options.type).image}"]
    return [command + ["--spot"] * options.spot]


def set_up(options):
    """Commands that copy this package to all hosts, install it and mount the bucket."""
    # Packages ask for tensorflow by name, which has the same files as the build for TPUs: the one
    # goes, and the other comes, when all the rest is there.
    install = [
        "python3 -m venv venv",
        "venv/bin/pip install --upgrade pip",
        f"venv/bin/pip install ./source 'tensorflow=={_TENSORFLOW}' 'tensorflow-text==2.20.*'",
        "venv/bin/pip uninstall --yes tensorflow",
        f"venv/bin/pip install --force-reinstall --no-deps tensorflow-tpu=={_TENSORFLOW}",
        f"venv/bin/pip install tensorflow-tpu=={_TENSORFLOW} libtpu=={_LIBTPU}",
    ]
    if options.bucket:
        bucket = shlex.quote(options.bucket)
        install.append(
            f"mkdir -p bucket && (mountpoint -q bucket || gcsfuse --implicit-dirs {bucket} bucket)"
        )
    copy = ["gcloud", "compute", "tpus", "tpu-vm", "scp", "--recurse", options.source]
    copy += [f"{options.name}:source", *_place(options), "--worker=all"]
    return [copy, _ssh(options, "all", " && ".join(install))]


def run(options):
    """Commands that run a command on the TPU."""
    # The first host drives all of them; the servers on these have loaded the library.
    several = f"TPU_NAME={shlex.quote(options.name)} TPU_LOAD_LIBRARY=0 "
    environment = several if Slice.of(options.type).num_hosts > 1 else "TPU_NAME=local "
    program = f"{environment}PATH=$HOME/venv/bin:$PATH {shlex.join(options.command)}"
    # With a terminal, so that the command ends where the connection does.
    return [[*_ssh(options, "0", program), "--", "-t"]]


def delete(options):
    """Commands that end the TPU, and its price."""
    command = ["gcloud", "compute", "tpus", "tpu-vm", "delete", options.name, *_place(options)]
    return [[*command, "--quiet"]]


def job(options):
    """Runs all of it; returns the status."""
    label = uuid.uuid4().hex
    status, is_ours = 1, False
    try:
        status = commands.run(create(options, label), options.dry_run)
        is_ours = not status
        status = status or commands.run(set_up(options) + run(options), options.dry_run)
    finally:
        with commands.signals_held():  # a second Ctrl-C does not keep a TPU that costs
            # Where `create` failed or was interrupted, the TPU may be there, and may be another's.
            if is_ours or _has_label(options, label):
                status = _end(options) or status
    return status


def _end(options):
    """Deletes the TPU of a job, or says what it costs to keep it; returns the status."""
    status = 0 if options.keep else commands.run(delete(options), options.dry_run, own_session=True)
    if options.keep or status:
        print(f"kept; it costs until: {commands.shown(delete(options)[0])}")
    return status


def _has_label(options, label):
    command = ["gcloud", "compute", "tpus", "tpu-vm", "describe", options.name, *_place(options)]
    command.append(f"--format=value(labels.{_LABEL})")
    try:
        found = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    except OSError:
        return False
    return found.stdout.strip() == label


def _place(options):
    project = [f"--project={options.project}"] if options.project else []
    return [f"--zone={options.zone}", *project]


def _ssh(options, worker, program):
    command = ["gcloud", "compute", "tpus", "tpu-vm", "ssh", options.name, *_place(options)]
    return [*command, f"--worker={worker}", f"--command={program}"]


_STEPS = {"create": create, "set-up": set_up, "run": run, "delete": delete}


def _accelerator_type(text):
    Slice.of(text)
    return text


def _parser():
    parser = commands.Parser(__doc__)
    parser.add_argument("step", choices=["job", *_STEPS])
    name = commands.matching("[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "a name of a TPU, such as bert-1")
    parser.add_argument("--name", required=True, type=name, help="of the TPU")
    zone = commands.matching(
        "[a-z]+-[a-z]+[0-9]{1,2}-[a-z0-9]{1,4}", "a zone such as us-central2-b"
    )
    parser.add_argument("--zone", required=True, type=zone)
    project = commands.matching("([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id")
    parser.add_argument("--project", type=project, help="default: gcloud's own")
    parser.add_argument(
        "--type",
        type=_accelerator_type,
        default="v4-8",
        help="such as v4-8, a host with 4 chips; v5litepod-8; or v4-32, 4 hosts. Default: v4-8",
    )
    parser.add_argument("--spot", action="store_true", help="cheaper, and may be taken away")
    bucket = commands.matching(
        "[a-z0-9][a-z0-9_.-]{1,220}[a-z0-9]", "a bucket's name, without gs://"
    )
    parser.add_argument("--bucket", type=bucket, help="its name, without gs://")
    parser.add_argument("--source", default=".", help="the checkout to copy; default: .")
    parser.add_argument("--keep", action="store_true", help="of job: do not delete it at the end")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    return parser


def main(arguments=None):
    """Returns the status of what was run."""
    parser = _parser()
    arguments = sys.argv[1:] if arguments is None else arguments
    own, command = commands.split(arguments)
    options = parser.parse_args(own, argparse.Namespace(command=command))
    runs = options.step in ("job", "run")
    if runs and not command:
        parser.error("there is no command to run; give it behind --")
    if command and not runs:
        parser.error(f"{options.step} runs no command; leave out what is behind --")
    if options.keep and options.step != "job":
        parser.error("--keep is for job")
    if options.step in ("job", "set-up"):
        try:
            options.source = commands.checkout(options.source)
        except argparse.ArgumentTypeError as error:
            parser.error(f"argument --source: {error}")
    commands.end_on_signals()
    try:
        if options.step == "job":
            return job(options)
        return commands.run(_STEPS[options.step](options), options.dry_run)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
