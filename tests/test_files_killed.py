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
import numpy as np
from keras_bert_impl.io import files
from keras_bert_impl.io import paths
from keras_bert_impl.io.errors import InputError

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
          "shutil.rmtree", "os.scandir", "os.listdir", "fcntl.flock", "os.truncate", "os.chmod",
          "os.chown", "ctypes.dlsym"}  # the last one comes right before the exchange

def content(folder):
    return {str(p.relative_to(folder)): p.read_text(errors="replace") if p.is_file() else None
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

def trace(root, prepare, action, again):
    """One line for each operation: the content after the kill, and after `again`."""
    for number in range(1, 1000):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        prepare(root)
        is_over = killed_at(number, lambda: action(root))
        killed = content(root)
        again(root)
        print(json.dumps([is_over, killed, content(root)]))
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

class Embedder:
    """An embedder whose vectors and texts have the length of the text."""
    dim, normalize, prompts, default_prompt_name, weights = 2, False, {}, None, ()
    pooling = num_layers = projections = truncate_dim = do_lower_case = None
    tokenizer = type("", (), {"fingerprint": ""})
    def encode(self, texts, **_):
        return np.full([len(texts), 2], len(texts[0]), "float32")

def write_vectors(root, text="new texts"):
    from keras_bert_impl.tasks.embedding import vectors
    place = vectors.PlacedText("here", 1, text)
    vectors.write_vectors(Embedder(), [place], root / "v.npy")

def search_vectors(root):
    from keras_bert_impl.tasks.embedding import search, vector_source
    try:
        vector_source.check_same_model(root / "v.npy", Embedder())
        (text,) = search.read_places(root / "v.npy", [0], 1).values()
        assert search.read_vectors(root / "v.npy").tolist() == [[len(text.text)] * 2]
    except InputError as error:
        assert "Run `keras-bert embed` again" in str(error), error
        (root / "told").touch()
    write_vectors(root)

def write_pictures(root, text="new"):
    from keras_bert_impl.reports import charts, page, run_report
    charts.Drawing.save_png = charts.Drawing.save_svg
    run_report.save_pictures([page.Section("", "", [charts.Drawing("a", text)])], root / "pictures")

def write_file(root, text="new"):
    with files.replace_file(root / "file") as new:
        new.write_text(text)

def old_model(root):
    write_model(root, "old")
    (root / "model" / "notes").write_text("mine")
    (root / "model" / "more").mkdir()
    (root / "model" / "more" / "notes").write_text("mine")

def write_twice(root):
    # The next writer may be killed, too, at any point.
    for number in range(1, 60, 7):
        killed_at(number, lambda: write_model(root))
    write_model(root)

def write_inside(root):
    os.chdir(root / "model")
    write_model(root)

root = Path(sys.argv[2])
kind, *how = sys.argv[1].split(" by ")
if how:  # where the system cannot exchange names
    paths._exchange = lambda *_: False
{
    "model": lambda: trace(root, old_model, write_model, write_model),
    "new_model": lambda: trace(root, lambda r: None, write_model, write_model),
    "inside": lambda: trace(root, old_model, write_inside, write_model),
    "pair": lambda: trace(root, lambda r: write_pair(r, "old"), write_pair, write_pair),
    "file": lambda: trace(root, lambda r: write_file(r, "old"), write_file, write_file),
    "vectors": lambda: trace(root, lambda r: write_vectors(r, "old"), write_vectors, search_vectors),
    "pictures": lambda: trace(
        root, lambda r: write_pictures(r, "old"), write_pictures, write_pictures),
    "twice": lambda: trace(root, old_model, write_model, write_twice),
}[kind]()
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


NOTES = {"model/notes": "mine", "model/more": None, "model/more/notes": "mine"}


def model(text):
    files = ("model/config", "model/weights", "model/assets/vocabulary")
    return {"model": None, "model/assets": None} | dict.fromkeys(files, text)


def visible(content):
    """What a reader sees, who never completes what a writer began."""
    hidden = {name for name in content if any(part.startswith(".") for part in name.split("/"))}
    return {name: text for name, text in content.items() if name not in hidden}


@pytest.mark.parametrize("kind", ["model", "twice"])
def test_a_model_written_over_another_is_whole_or_untouched(tmp_path, kind):
    old, new = model("old") | NOTES, model("new") | NOTES
    outcomes = []
    for _, killed, again in traced(kind, tmp_path):
        assert visible(killed) in (old, new)
        outcomes.append(visible(killed) == new)
        assert again == new  # and nothing is left
    assert outcomes == sorted(outcomes) and {*outcomes} == {True, False}


def test_without_an_exchange_the_model_is_missing_at_worst(tmp_path):
    old, new = model("old") | NOTES, model("new") | NOTES
    seen = []
    for _, killed, again in traced("model by two renames", tmp_path):
        assert visible(killed) in (old, {}, new)
        seen.append(visible(killed))
        assert again == new
    assert seen.count({}) == 1


def test_entries_of_the_current_directory_are_never_mixed(tmp_path):
    new = model("new") | NOTES
    for _, killed, again in traced("inside", tmp_path):
        assert NOTES.items() <= visible(killed).items()
        assert not {"old", "new"} <= {*visible(killed).values()}
        assert again == new


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("new_model", {}, model("new")),
        ("file", {"file": "old"}, {"file": "new"}),
    ],
)
def test_other_outputs_are_whole_or_untouched(tmp_path, kind, old, new):
    for _, killed, again in traced(kind, tmp_path):
        assert visible(killed) in (old, new)
        assert again == new


def test_the_last_of_several_files_is_missing_between_old_and_new_ones(tmp_path):
    old, new = {"a.npy": "old", "a.jsonl": "old"}, {"a.npy": "new", "a.jsonl": "new"}
    for _, killed, again in traced("pair", tmp_path):
        assert visible(killed) in (old, {"a.npy": "old"}, {"a.npy": "new"}, new)
        assert again == new


def test_vectors_that_do_not_belong_to_their_texts_are_told(tmp_path):
    outcomes = ["told" in again for _, _, again in traced("vectors", tmp_path)]
    assert 1 < outcomes.count(True) < len(outcomes) / 2 and not outcomes[0] and not outcomes[-1]


def test_pictures_of_a_report_are_replaced_together(tmp_path):
    steps = traced("pictures", tmp_path)
    for _, killed, again in steps:
        assert visible(killed) in (steps[0][1], visible(steps[-1][1]))
        assert visible(again) == visible(steps[-1][1]) != steps[0][1]


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
