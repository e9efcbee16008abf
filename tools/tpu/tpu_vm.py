#!/usr/bin/env python
"""Creates a Cloud TPU, sets it up, runs a command on it, and deletes it, by `gcloud`.

    python tools/tpu/tpu_vm.py job --name bert --zone us-central2-b --type v4-8 --bucket my-bucket \
        --dry-run -- keras-bert pretrain bucket/records --out bucket/run --recipe bert_base

`job` is `create`, `set-up`, `run` and `delete`, each of which is a command of its own, too; the TPU is
deleted even if a command before fails, unless `--keep` is given. `--dry-run` prints all commands and
runs none. The bucket is mounted as `bucket` in the home directory of every host, so that records and
run directories are paths. A command that was interrupted is given again: the run goes on.
"""

import argparse
import re
import shlex
import sys
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
        found = re.fullmatch(r"([a-z0-9]+)-(\d+)", accelerator_type)
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


def create(options):
    """Commands that make the TPU."""
    command = ["gcloud", "compute", "tpus", "tpu-vm", "create", options.name, *_place(options)]
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
        install.append("mkdir -p bucket && (mountpoint -q bucket || gcsfuse --implicit-dirs "
                       f"{bucket} bucket)")
    copy = ["gcloud", "compute", "tpus", "tpu-vm", "scp", "--recurse", options.source]
    copy += [f"{options.name}:source", *_place(options), "--worker=all"]
    return [copy, _ssh(options, "all", " && ".join(install))]


def run(options):
    """Commands that run a command on the TPU."""
    if not options.command:
        raise SystemExit("error: there is no command to run; give it behind --")
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
    status = 1
    try:
        status = commands.run(create(options) + set_up(options) + run(options), options.dry_run)
    finally:
        if options.keep:
            print(f"kept; it costs until: {commands.shown(delete(options)[0])}")
        else:
            status = commands.run(delete(options), options.dry_run) or status
    return status


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


def main(arguments=None):
    """Returns the status of what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["job", *_STEPS])
    parser.add_argument("--name", required=True, help="of the TPU")
    parser.add_argument("--zone", required=True)
    parser.add_argument("--project", help="default: gcloud's own")
    parser.add_argument("--type", type=_accelerator_type, default="v4-8", help="such as v4-8, a "
                        "host with 4 chips; v5litepod-8; or v4-32, 4 hosts. Default: v4-8")
    parser.add_argument("--spot", action="store_true", help="cheaper, and may be taken away")
    parser.add_argument("--bucket", help="its name, without gs://")
    parser.add_argument("--source", default=".", help="the checkout to copy; default: .")
    parser.add_argument("--keep", action="store_true", help="of job: do not delete it at the end")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run none")
    arguments = sys.argv[1:] if arguments is None else arguments
    own, command = commands.split(arguments)
    options = parser.parse_args(own, argparse.Namespace(command=command))
    if options.step == "job":
        return job(options)
    return commands.run(_STEPS[options.step](options), options.dry_run)


if __name__ == "__main__":
    sys.exit(main())
