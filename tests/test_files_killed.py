"""Outputs of processes that are killed before each single operation on the file system."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = '''
import json, os, signal, shutil, sys
from pathlib import Path
from keras_bert_impl.io import files

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
          "shutil.rmtree", "os.scandir", "os.listdir", "fcntl.flock", "os.truncate", "os.chmod"}

def content(folder):
    return {str(p.relative_to(folder)): p.read_text() if p.is_file() else None
            for p in sorted(folder.rglob("*"))}

def killed_at(number, action):
    """Whether a child that is killed before its operation of this number did not get there."""
    child = os.fork()
    if child == 0:
        seen = 0
        def hook(event, _):
            nonlocal seen
            if event in EVENTS:
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        action()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status)

def trace(root, prepare, action, recover, again):
    """One line for each operation: the content after the kill, after `recover` and after `again`."""
    for number in range(1, 1000):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        prepare(root)
        is_over = killed_at(number, lambda: action(root))
        killed = content(root)
        recover(root)
        recovered = content(root)
        again(root)
        print(json.dumps([is_over, killed, recovered, content(root)]))
        if is_over:
            return

def write_model(root, text="new"):
    with files.replace_directory(root / "model") as new:
        (new / "config").write_text(text)
        (new / "weights").write_text(text)
        (new / "assets").mkdir()
        (new / "assets" / "vocabulary").write_text(text)

def write_pair(root, text="new"):
    with files.replace_files(root / "a.npy", root / "a.jsonl") as (vectors, places):
        vectors.write_text(text)
        places.write_text(text)

def write_file(root, text="new"):
    with files.replace_file(root / "file") as new:
        new.write_text(text)

def old_model(root):
    write_model(root, "old")
    (root / "model" / "notes").write_text("mine")

root = Path(sys.argv[2])
{
    "model": lambda: trace(root, old_model, write_model, lambda r: files.recover(r / "model"), write_model),
    "new_model": lambda: trace(root, lambda r: None, write_model, files.recover, write_model),
    "pair": lambda: trace(root, lambda r: write_pair(r, "old"), write_pair, files.recover, write_pair),
    "file": lambda: trace(root, lambda r: write_file(r, "old"), write_file, files.recover, write_file),
    # The next one may be killed, too.
    "twice": lambda: trace(root, old_model, write_model,
                           lambda r: (killed_at(12, lambda: files.recover(r / "model")),
                                      files.recover(r / "model")), write_model),
}[sys.argv[1]]()
'''


def traced(kind, tmp_path):
    """list of (whether it came to its end, the contents as `trace` prints them)."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", SCRIPT, kind, str(tmp_path / "root")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > 10 and steps[-1][0]
    assert not any(is_over for is_over, *_ in steps[:-1])
    return steps


def model(text, *more):
    files = ("model/config", "model/weights", "model/assets/vocabulary", *more)
    folders = {"model": None, "model/assets": None}
    return folders | {name: "mine" if name == "model/notes" else text for name in files}


def visible(content):
    return {
        name: text
        for name, text in content.items()
        if not name.split("/model/")[-1].startswith(".")
        and not any(part.startswith(".") for part in name.split("/"))
    }


@pytest.mark.parametrize("kind", ["model", "twice"])
def test_a_model_written_over_another_is_whole_or_untouched(tmp_path, kind):
    old, new = model("old", "model/notes"), model("new", "model/notes")
    outcomes = []
    for _, killed, recovered, again in traced(kind, tmp_path):
        texts = {text for name, text in visible(killed).items() if not name.endswith("notes")}
        assert not {"old", "new"} <= texts  # never a mixture, whoever reads it
        assert visible(recovered) in (old, new)
        outcomes.append(visible(recovered) == new)
        assert again == new  # and nothing is left
    assert outcomes == sorted(outcomes) and {*outcomes} == {True, False}


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("new_model", {}, model("new")),
        ("pair", {"a.npy": "old", "a.jsonl": "old"}, {"a.npy": "new", "a.jsonl": "new"}),
        ("file", {"file": "old"}, {"file": "new"}),
    ],
)
def test_other_outputs_are_whole_or_untouched(tmp_path, kind, old, new):
    for _, killed, recovered, again in traced(kind, tmp_path):
        assert not {"old", "new"} <= set(visible(killed).values())
        assert visible(recovered) in (old, new)
        assert again == new


def test_one_of_many_processes_that_start_at_once_gets_the_lock(tmp_path):
    """Each waits for the same moment, then claims, and keeps what it got."""
    code = """
import sys, time
from pathlib import Path
from keras_bert_impl.io.files import claim

claimed = []
print("ready", flush=True)
for name, moment in zip(sys.stdin.readline().split(), sys.stdin.readline().split()):
    time.sleep(max(0, float(moment) - time.time()))
    claimed.append(claim(Path(name) / "checkpoints" / ".lock"))
    print("refused" if claimed[-1] is None else "mine", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, env=environment
        )
        for _ in range(3)
    ]
    try:
        assert [process.stdout.readline() for process in started] == ["ready\n"] * 3
        runs = [str(tmp_path / f"run{number}") for number in range(25)]
        now = time.time()
        moments = [str(now + 0.5 + 0.05 * number) for number in range(25)]
        for process in started:
            process.stdin.write(f"{' '.join(runs)}\n{' '.join(moments)}\n")
            process.stdin.flush()
        said = [[process.stdout.readline().strip() for _ in runs] for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    for outcomes in zip(*said):
        assert sorted(outcomes) == ["mine", "refused", "refused"]
