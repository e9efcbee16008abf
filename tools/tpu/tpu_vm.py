#!/usr/bin/env python
"""Creates a Cloud TPU with `gcloud`, runs a command on it, and deletes it.

    python tools/tpu/tpu_vm.py job --name bert --zone us-central2-b --type v4-8 --bucket my-bucket \
        --dry-run -- keras-bert pretrain bucket/records --out bucket/run --recipe bert_base

`job` runs `create`, `set-up`, `run` and `delete`, which are also separate commands. `job` deletes
the TPU even if a command fails, unless `--keep` is given. It deletes only a TPU that it created
itself, which it identifies by a label. `--dry-run` prints all commands without running them. The
bucket is mounted as `bucket` in the home directory of every host, so records and run directories
are given as paths. To resume an interrupted run, repeat the command.
"""

import argparse
import re
import shlex
import subprocess
import sys
import uuid
from typing import NamedTuple

import commands

_TENSORFLOW = "2.20.0"  # the newest version with a build for TPUs
_LIBTPU = "0.0.14"  # later versions satisfy TensorFlow's requirements, but crash
# Generation -> (units per chip in the number of a type, chips per host in a slice of several hosts,
# maximum chips of a single host).
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
    """A TPU slice, parsed from the name of an accelerator type."""

    generation: str
    num_chips: int
    num_hosts: int

    @classmethod
    def of(cls, accelerator_type: str) -> "Slice":
        """Returns the slice of a type such as `v4-32`, or raises an `ArgumentTypeError`."""
        match = re.fullmatch("([a-z0-9]+)-([1-9][0-9]{0,5})", accelerator_type)
        if not match or match[1] not in _GENERATIONS:
            raise argparse.ArgumentTypeError(
                f"{accelerator_type!r} is not a TPU type, such as v4-8. The generations are "
                f"{', '.join(_GENERATIONS)}"
            )
        per_chip, of_host, most_of_one = _GENERATIONS[match[1]]
        chips, remainder = divmod(int(match[2]), per_chip)
        if remainder or not chips:
            raise argparse.ArgumentTypeError(
                f"{accelerator_type} is not a whole number of chips; give a multiple of {per_chip}"
            )
        return cls(match[1], chips, 1 if chips <= most_of_one else -(-chips // of_host))

    @property
    def image(self) -> str:
        """The software version, which for several hosts includes TPU servers."""
        if self.num_hosts > 1:
            return f"tpu-vm-tf-{_TENSORFLOW}-pod-pjrt"
        return _IMAGES.get(self.generation, "tpu-ubuntu2204-base")


def create(options: argparse.Namespace, label: str | None = None) -> list[list[str]]:
    """Returns the commands that create the TPU, with a label of this job if one is given."""
    command = ["gcloud", "compute", "tpus", "tpu-vm", "create", options.name, *_place(options)]
    command += [f"--labels={_LABEL}={label}"] * bool(label)
    command += [f"--accelerator-type={options.type}", f"--version={Slice.of(options.type).image}"]
    return [command + ["--spot"] * options.spot]


def set_up(options: argparse.Namespace) -> list[list[str]]:
    """Returns commands that copy this package to all hosts, install it and mount the bucket."""
    # Other packages require tensorflow, whose files have the same names as the build for TPUs. The
    # last step replaces tensorflow with this build.
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
    return [copy, _build_ssh_command(options, "all", " && ".join(install))]


def run(options: argparse.Namespace) -> list[list[str]]:
    """Returns commands that run a command on the TPU."""
    # the first host controls all hosts; the servers on them have loaded the library
    several = f"TPU_NAME={shlex.quote(options.name)} TPU_LOAD_LIBRARY=0 "
    environment = several if Slice.of(options.type).num_hosts > 1 else "TPU_NAME=local "
    program = f"{environment}PATH=$HOME/venv/bin:$PATH {shlex.join(options.command)}"
    # a terminal, so that the command ends with the connection
    return [[*_build_ssh_command(options, "0", program), "--", "-t"]]


def delete(options: argparse.Namespace) -> list[list[str]]:
    """Returns commands that delete the TPU."""
    command = ["gcloud", "compute", "tpus", "tpu-vm", "delete", options.name, *_place(options)]
    return [[*command, "--quiet"]]


def job(options: argparse.Namespace) -> int:
    """Runs all steps; returns the status."""
    label = uuid.uuid4().hex
    status, is_ours = 1, False
    try:
        status = commands.run(create(options, label), options.dry_run)
        is_ours = not status
        status = status or commands.run(set_up(options) + run(options), options.dry_run)
    finally:
        with commands.signals_held():  # a second Ctrl-C must not leave a TPU running
            # if `create` failed or was interrupted, the TPU may exist, but it may belong to another
            # job
            if is_ours or _has_label(options, label):
                status = _release_tpu(options) or status
    return status


def _release_tpu(options):
    """Deletes the TPU of a job, or prints the delete command if it is kept. Returns the status."""
    status = 0 if options.keep else commands.run(delete(options), options.dry_run, own_session=True)
    if options.keep or status:
        print(f"the TPU is kept and billed until you run: {commands.shown(delete(options)[0])}")
    return status


def _has_label(options, label):
    command = ["gcloud", "compute", "tpus", "tpu-vm", "describe", options.name, *_place(options)]
    command.append(f"--format=value(labels.{_LABEL})")
    try:
        process = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    except OSError:
        return False
    return process.stdout.strip() == label


def _place(options):
    project = [f"--project={options.project}"] if options.project else []
    return [f"--zone={options.zone}", *project]


def _build_ssh_command(options, worker, program):
    command = ["gcloud", "compute", "tpus", "tpu-vm", "ssh", options.name, *_place(options)]
    return [*command, f"--worker={worker}", f"--command={program}"]


_STEPS = {"create": create, "set-up": set_up, "run": run, "delete": delete}


def _check_accelerator_type(text):
    Slice.of(text)
    return text


def _build_parser():
    parser = commands.Parser(__doc__)
    parser.add_argument("step", choices=["job", *_STEPS])
    name = commands.matching("[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "a name of a TPU, such as bert-1")
    parser.add_argument("--name", required=True, type=name, help="name of the TPU")
    zone = commands.matching(
        "[a-z]+-[a-z]+[0-9]{1,2}-[a-z0-9]{1,4}", "a zone such as us-central2-b"
    )
    parser.add_argument("--zone", required=True, type=zone)
    project = commands.matching("([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", "a project's id")
    parser.add_argument("--project", type=project, help="default: gcloud's own")
    parser.add_argument(
        "--type",
        type=_check_accelerator_type,
        default="v4-8",
        help="accelerator type, such as v4-8 (a host with 4 chips), v5litepod-8 or v4-32 (4 hosts); "
        "default: v4-8",
    )
    parser.add_argument(
        "--spot", action="store_true", help="create a cheaper TPU, which may be preempted"
    )
    bucket = commands.matching(
        "[a-z0-9][a-z0-9_.-]{1,220}[a-z0-9]", "a bucket's name, without gs://"
    )
    parser.add_argument("--bucket", type=bucket, help="name of the bucket to mount, without gs://")
    parser.add_argument("--source", default=".", help="the checkout to copy; default: .")
    parser.add_argument("--keep", action="store_true", help="job only: do not delete the TPU")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands without running them"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Returns the status of the commands."""
    parser = _build_parser()
    arguments = sys.argv[1:] if arguments is None else arguments
    tool_arguments, command = commands.split(arguments)
    options = parser.parse_args(tool_arguments, argparse.Namespace(command=command))
    runs = options.step in ("job", "run")
    if runs and not command:
        parser.error("the command is missing; write it after --")
    if command and not runs:
        parser.error(f"{options.step} accepts no command; leave out -- and the command")
    if options.keep and options.step != "job":
        parser.error("--keep needs the step job")
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
