"""Commands for a TPU and for GPU hosts: the printed commands are the ones that run."""

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
FOLDER = Path(__file__).resolve().parents[2] / "tools" / "tpu"


def call(script, *arguments, path=None):
    """Runs a script with its own `PATH`; returns the completed process."""
    environment = os.environ if path is None else os.environ | {"PATH": str(path)}
    command = [sys.executable, str(FOLDER / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def programs(folder, **scripts):
    """Writes shell scripts to a folder."""
    folder.mkdir()
    for name, script in scripts.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    return folder


def start(folder, script, *arguments, **scripts):
    """Starts a script in a separate process group, with fake programs on its path."""
    environment = os.environ | {"PATH": str(programs(folder / "bin", **scripts))}
    return subprocess.Popen(
        [sys.executable, str(FOLDER / script), *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        # Where the tests ignore a signal, the script must not.
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in ENDS],
    )


def wait_for(process, file, is_reached):
    while not (file.exists() and is_reached(file.read_text())):
        assert process.poll() is None
        time.sleep(0.05)


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def job(*options):
    place = ["--name", "bert", "--zone", "us-central2-b"]
    return [
        "job",
        *place,
        *options,
        "--",
        "keras-bert",
        "pretrain",
        "bucket/records",
        "--out",
        "a b",
    ]


@pytest.fixture(scope="module")
def tpu_vm():
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("tpu_vm")
    sys.path.remove(str(FOLDER))


def test_dry_run_shows_each_step_and_runs_none(tmp_path):
    path = programs(tmp_path / "bin", gcloud=f"echo ran >> {tmp_path}/ran")
    process = call("tpu_vm.py", *job("--type", "v4-8", "--bucket", "texts", "--dry-run"), path=path)
    lines = [shlex.split(line) for line in process.stdout.splitlines()]
    assert process.returncode == 0
    assert [line[4] for line in lines] == ["create", "scp", "ssh", "ssh", "delete"]
    assert "--accelerator-type=v4-8" in lines[0] and "--spot" not in lines[0]
    assert "--worker=all" in lines[1] and "--worker=all" in lines[2]
    assert "gcsfuse --implicit-dirs texts bucket" in lines[2][-1]
    assert not (tmp_path / "ran").exists()


def test_a_host_drives_its_own_chips_and_the_first_of_several_drives_all(tpu_vm, capsys):
    for kind, environment in (
        ("v4-8", "TPU_NAME=local"),
        ("v4-32", "TPU_NAME=bert TPU_LOAD_LIBRARY=0"),
    ):
        assert tpu_vm.main(job("--type", kind, "--dry-run")) == 0
        create, *_, run, _ = map(shlex.split, capsys.readouterr().out.splitlines())
        program = next(part for part in run if part.startswith("--command="))
        assert program.startswith(f"--command={environment} PATH=")
        assert program.endswith("keras-bert pretrain bucket/records --out 'a b'")
        assert "--worker=0" in run
        assert ("-pod-" in create[-1]) == (kind == "v4-32")


# Google's tables of slices: types count cores before v5 and for v5p, chips for v5e and v6e.
@pytest.mark.parametrize(
    "kind, chips, hosts",
    [
        ("v2-8", 4, 1),
        ("v3-32", 16, 4),
        ("v4-8", 4, 1),
        ("v4-2048", 1024, 256),
        ("v5p-16", 8, 2),
        ("v5litepod-8", 8, 1),
        ("v5litepod-16", 16, 4),
        ("v6e-256", 256, 64),
    ],
)
def test_accelerator_types_give_chips_and_hosts(tpu_vm, kind, chips, hosts):
    assert tpu_vm.Slice.of(kind)[1:] == (chips, hosts)


@pytest.mark.parametrize("kind", ["v4", "v9-8", "v4-9", "v4-0"])
def test_rejects_other_types(tpu_vm, kind, capsys):
    with pytest.raises(SystemExit) as caught:
        tpu_vm.main(job("--type", kind, "--dry-run"))
    assert caught.value.code == 2 and kind in capsys.readouterr().err


def test_a_failed_job_ends_the_tpu_too(tmp_path):
    record = f'echo "$4" >> {tmp_path}/steps; [ "$4" != ssh ] || exit 7'
    ended = call("tpu_vm.py", *job(), path=programs(tmp_path / "bin", gcloud=record))
    assert ended.returncode == 7
    assert (tmp_path / "steps").read_text().split() == ["create", "scp", "ssh", "delete"]


# `create` fails, or another job labeled the existing TPU; a job deletes only what it labeled.
@pytest.mark.parametrize(
    "label, steps",
    [
        ("", ["create", "describe"]),
        ("another's", ["create", "describe"]),
        (None, ["create", "describe", "delete"]),
    ],
)
def test_a_job_deletes_only_what_it_created(tmp_path, label, steps):
    record = f"""echo "$4" >> {tmp_path}/steps
case "$4" in
create) for part; do case "$part" in --labels=*) echo "${{part##*=}}" > {tmp_path}/own;; esac; done
    exit 9;;
describe) {f"cat {tmp_path}/own" if label is None else f'echo "{label}"'};;
esac"""
    path = programs(tmp_path / "bin", gcloud=record)
    (path / "cat").symlink_to("/bin/cat")
    ended = call("tpu_vm.py", *job(), path=path)
    assert ended.returncode == 9
    assert (tmp_path / "steps").read_text().split() == steps


@pytest.mark.parametrize("number", ENDS)
def test_a_job_that_is_ended_ends_the_tpu(tmp_path, number):
    steps = tmp_path / "steps"
    record = f'echo "$4" >> {steps}; [ "$4" != ssh ] || exec /bin/sleep 600'
    process = start(tmp_path, "tpu_vm.py", *job(), gcloud=record)
    try:
        wait_for(process, steps, lambda text: "ssh" in text)
        process.send_signal(number)
        assert process.wait(30) == 130
    finally:
        end(process)
    assert steps.read_text().split() == ["create", "scp", "ssh", "delete"]


def test_a_signal_in_the_middle_of_a_start_ends_what_was_started(tpu_vm, monkeypatch):
    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **how):
            super().__init__(*arguments, **how)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    started, before = [], signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(subprocess, "Popen", Popen)
    try:
        tpu_vm.commands.end_on_signals()
        with pytest.raises(KeyboardInterrupt):
            tpu_vm.commands.run_together([["sleep", "600"], ["sleep", "600"]])
    finally:
        signal.signal(signal.SIGTERM, before)
    (process,) = started
    assert process.returncode == -signal.SIGTERM


def test_a_second_signal_does_not_keep_the_tpu(tmp_path):
    steps = tmp_path / "steps"
    record = f"""echo "$4" >> {steps}
case "$4" in ssh) exec /bin/sleep 600;; delete) /bin/sleep 1; echo done >> {steps};; esac"""
    process = start(tmp_path, "tpu_vm.py", *job(), gcloud=record)
    try:
        for step in ("ssh", "delete"):
            wait_for(process, steps, lambda text, step=step: step in text)
            os.killpg(process.pid, signal.SIGTERM)  # like Ctrl-C: all in the terminal get it
        assert process.wait(30) == 130
    finally:
        end(process)
    assert steps.read_text().split() == ["create", "scp", "ssh", "delete", "done"]


@pytest.mark.parametrize("arguments", [[], ["--set-up"]])
def test_reports_a_missing_ssh(tmp_path, arguments):
    ended = call("gpu_hosts.py", "one", *arguments, "--", "true", path=programs(tmp_path / "bin"))
    missing = "rsync" if arguments else "ssh"
    assert ended.returncode == 127 and f"{missing} is not installed on this machine" in ended.stderr


def test_workers_end_with_the_script_that_started_them(tmp_path):
    started = tmp_path / "started"
    ssh = f"echo $$ >> {started}; exec /bin/sleep 600"
    process = start(tmp_path, "gpu_hosts.py", "one", "two", "--", "true", ssh=ssh)
    wait_for(process, started, lambda text: len(text.split()) == 2)
    process.terminate()
    assert process.wait(30) == 130
    for number in map(int, started.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_rejects_a_missing_command(tmp_path):
    path = programs(tmp_path / "bin", gcloud=f"echo ran >> {tmp_path}/ran")
    arguments = job()
    for incomplete in (arguments[: arguments.index("--")], arguments[: arguments.index("--") + 1]):
        ended = call("tpu_vm.py", *incomplete, path=path)
        assert ended.returncode == 2 and "the command is missing" in ended.stderr
    assert not (tmp_path / "ran").exists()


TPU = ["job", "--name", "bert", "--zone", "us-central2-b"]
PLAN = ["days", "--model", "bert-base-uncased", "--length", "128", "--steps", "9", "--batch", "8"]


@pytest.mark.parametrize(
    "script, arguments, wrong",
    [
        *(
            ("tpu_vm.py", [*TPU, option, *command], option.partition("=")[0])
            for command in [["--", "true"]]
            for option in (
                "--name=--quiet",
                "--name=a;b",
                "--zone=moon",
                "--project=--quiet",
                "--project=a b c d e f",
                "--bucket=gs://texts",
                "--bucket=a/../b",
                "--source=/not/there",
                "--type=v4-٨",
                "--type=v4-8;ls",
            )
        ),
        ("tpu_vm.py", ["delete", *TPU[1:], "--", "true"], "delete accepts no command"),
        ("tpu_vm.py", ["delete", *TPU[1:], "--keep"], "--keep needs the step job"),
        ("tpu_vm.py", ["create", "--name", "bert"], "--zone"),
        ("gpu_hosts.py", ["node-1", "node-1", "--", "true"], "node-1 is repeated"),
        ("gpu_hosts.py", ["node-1", "me@node-1", "--", "true"], "node-1 is repeated"),
        ("gpu_hosts.py", ["node-1"], "the command is missing"),
        *(
            ("gpu_hosts.py", ["node-1", option, "--", "true"], "")
            for option in (
                "--port=0",
                "--port=65536",
                "--port=٨",
                "a;reboot",
                "-oProxyCommand=x",
                "a:1",
                "",
            )
        ),
        ("gpu_hosts.py", ["a", "--set-up", "--source=/not/there", "--", "true"], "--source"),
        *(
            ("plan.py", [*PLAN, option], option.partition("=")[0])
            for option in (
                "--length=-5",
                "--steps=0",
                "--batch=1.5",
                "--utilization=nan",
                "--price=inf",
                "--model=bert-of-nobody",
            )
        ),
        ("plan.py", PLAN[:5], "days needs --steps"),
        ("plan.py", ["memory", *PLAN[1:5]], "memory needs --rows"),
    ],
)
def test_rejects_bad_arguments_on_one_line(script, arguments, wrong, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module(script.removesuffix(".py"))
    with pytest.raises(SystemExit) as caught:
        module.main(
            [*arguments[:-2], "--dry-run", *arguments[-2:]] if "--" in arguments else arguments
        )
    ended = capsys.readouterr()
    assert caught.value.code == 2 and ended.out == ""
    assert wrong in ended.err and len(ended.err.splitlines()) == 1


def test_prints_that_a_kept_tpu_costs(tmp_path):
    path = programs(tmp_path / "bin", gcloud=f'echo "$4" >> {tmp_path}/steps')
    ended = call("tpu_vm.py", *job("--keep"), path=path)
    assert ended.returncode == 0
    assert (
        "the TPU is kept and billed until you run: gcloud compute tpus tpu-vm delete bert"
        in ended.stdout
    )
    assert (tmp_path / "steps").read_text().split() == ["create", "scp", "ssh", "ssh"]


def test_reports_a_missing_gcloud(tmp_path):
    ended = call("tpu_vm.py", *job(), path=programs(tmp_path / "bin"))
    assert ended.returncode == 127 and "gcloud is not installed" in ended.stderr


# Runs the program of `ssh -tt HOST PROGRAM` here.
SSH = 'shift 2; exec /bin/sh -c "exec /usr/bin/env $1"'


def test_hosts_are_workers_of_one_cluster(tmp_path):
    path = programs(tmp_path / "bin", ssh=SSH)
    command = ["/bin/sh", "-c", 'echo "$TF_CONFIG"']
    ended = call("gpu_hosts.py", "one", "me@two", "--port", "999", "--", *command, path=path)
    assert ended.returncode == 0
    configs = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert {config["task"]["index"] for config in configs} == {0, 1}
    assert all(config["cluster"] == {"worker": ["one:999", "two:999"]} for config in configs)


def test_stops_the_other_workers_if_one_fails(tmp_path):
    path = programs(tmp_path / "bin", ssh=SSH)
    command = [
        "/bin/sh",
        "-c",
        'case "$TF_CONFIG" in *"index\\": 1"*) exit 3;; esac; exec /bin/sleep 600',
    ]
    ended = call("gpu_hosts.py", "one", "two", "--", *command, path=path)
    assert ended.returncode == 3  # the test also ended


def test_hosts_are_set_up_before(tmp_path):
    path = programs(tmp_path / "bin")
    process = call("gpu_hosts.py", "one", "two", "--set-up", "--dry-run", "--", "train", path=path)
    lines = [shlex.split(line)[:2] for line in process.stdout.splitlines()]
    assert [line[0] for line in lines] == ["rsync", "ssh", "rsync", "ssh", "ssh", "ssh"]
    assert call("gpu_hosts.py", "one").returncode == 2  # no command
