"""Outputs of processes that are killed before each single operation on the file system."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_bert_impl.reports import charts, page, run_report
from keras_bert_impl.tasks.embedding import search, vector_source, vectors
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import files, paths
from tests.killed import put, states_of, visible

NOTES = {"model/notes": b"mine", "model/more/notes": b"mine"}


def model(text):
    names = ("config", "weights", "assets/vocabulary")
    return {f"model/{name}": text.encode() for name in names}


def write_model(root, text="new"):
    with files.replace_directory(root / "model") as new:
        (new / "assets").mkdir()
        for name in ("config", "weights", "assets/vocabulary"):
            (new / name).write_text(text)


def old_model(root):
    write_model(root, "old")
    (root / "model" / "more").mkdir()
    for name in ("notes", "more/notes"):
        (root / "model" / name).write_text("mine")


def write_inside(root):
    """Writes the current directory, which cannot be renamed."""
    before = os.getcwd()
    os.chdir(root / "model")
    try:
        write_model(root)
    finally:
        os.chdir(before)


def write_file(root, text="new"):
    with files.replace_file(root / "file") as new:
        new.write_text(text)


def write_pair(root, text="new"):
    with files.replace_files(root / "a.npy", root / "a.jsonl") as new:
        for path in new:
            path.write_text(text)


def killed(root, old, write, again=None):
    """Yields what a reader sees after each kill, and after another process has written, too."""
    root.mkdir()
    old(root)
    copies = root.with_name(f"{root.name}-states")
    with states_of(root, copies) as states:
        write(root)
    assert len(states) > 1
    for state in states:
        put(state, root)
        content = visible(root)
        (again or write)(root)
        yield content, visible(root)
        assert not [*root.rglob("*.aside")]


def killed_again(root):
    """Writes a model; its process is killed, too, at any point."""
    with states_of(root, root.with_name("states")) as states:
        write_model(root)
    for state in states:
        put(state, root)
        write_model(root)


@pytest.mark.parametrize("again", [write_model, killed_again])
def test_a_model_written_over_another_is_whole_or_untouched(tmp_path, again):
    old, new = model("old") | NOTES, model("new") | NOTES
    outcomes = []
    for content, content_again in killed(tmp_path / "root", old_model, write_model, again):
        outcomes.append([old, new].index(content))
        assert content_again == new
    assert outcomes == sorted(outcomes) and {*outcomes} == {0, 1}


def test_without_an_exchange_the_model_is_missing_at_worst(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_swap_names", lambda *_: False)
    old, new = model("old") | NOTES, model("new") | NOTES
    outcomes = []
    for content, content_again in killed(tmp_path / "root", old_model, write_model, write_file):
        outcomes.append([old, {}, new].index(content))
        # The next process that writes there restores the model.
        assert content_again == (content or old) | {"file": b"new"}
    assert outcomes == sorted(outcomes) and outcomes.count(1) == 1


def test_entries_of_the_current_directory_are_never_mixed_or_lost(tmp_path):
    old, new = model("old") | NOTES, model("new") | NOTES

    def write_inside_again(root):
        files.write_json(root / "model" / "more.json", 1)

    is_partial = []
    for content, restored in killed(tmp_path / "root", old_model, write_inside, write_inside_again):
        assert content.items() <= old.items() or content.items() <= new.items()
        assert restored.pop("model/more.json") and restored in (old, new)
        is_partial.append(content not in (old, new))
    assert is_partial.count(True) == 6 and not is_partial[0] and not is_partial[-1]


def write_nothing(root):
    pass


def write_old_file(root):
    write_file(root, "old")


@pytest.mark.parametrize(
    ("old", "write"), [(write_nothing, write_model), (write_old_file, write_file)]
)
def test_other_outputs_are_whole_or_untouched(tmp_path, old, write):
    outcomes = [*killed(tmp_path / "root", old, write)]
    before, after = outcomes[0][0], outcomes[-1][0]
    assert before != after
    assert all(content in (before, after) and again == after for content, again in outcomes)


def test_the_last_of_several_files_is_missing_between_old_and_new_ones(tmp_path):
    old, new = ({"a.npy": text, "a.jsonl": text} for text in (b"old", b"new"))
    outcomes = [*killed(tmp_path / "root", lambda root: write_pair(root, "old"), write_pair)]
    assert all(again == new for _, again in outcomes)
    assert [content for content, _ in outcomes] == [old, {"a.npy": b"old"}, {"a.npy": b"new"}, new]


class Embedder:
    """An embedder whose vectors have the length of the text."""

    dim, normalize, prompts, default_prompt_name, weights = 2, False, {}, None, ()
    pooling = num_layers = projections = truncate_dim = do_lower_case = None
    tokenizer = type("", (), {"fingerprint": ""})

    def encode(self, texts, **_):
        return np.full([len(texts), 2], len(texts[0]), "float32")


def write_vectors(root, text="new texts"):
    vectors.write_vectors(Embedder(), [vectors.PlacedText("here", 1, text)], root / "v.npy")


def test_vectors_that_do_not_belong_to_their_texts_are_told(tmp_path):
    is_refused = []

    def search_vectors(root):
        try:
            vector_source.check_same_model(root / "v.npy", Embedder())
            (text,) = search.read_places(root / "v.npy", [0], 1).values()
            assert search.read_vectors(root / "v.npy").tolist() == [[len(text.text)] * 2]
            is_refused.append(False)
        except InputError as error:
            assert "Run `keras-bert embed` again" in str(error), error
            is_refused.append(True)
        write_vectors(root)

    outcomes = [
        *killed(
            tmp_path / "root",
            lambda root: write_vectors(root, "old"),
            write_vectors,
            search_vectors,
        )
    ]
    assert all(again == outcomes[-1][0] for _, again in outcomes)
    assert is_refused == [False, *[True] * (len(is_refused) - 2), False] and len(is_refused) > 2


def write_pictures(root, text="new"):
    run_report.save_pictures([page.Section("", "", [charts.Drawing("a", text)])], root / "pictures")


def test_pictures_of_a_report_are_replaced_together(tmp_path, monkeypatch):
    monkeypatch.setattr(charts.Drawing, "save_png", charts.Drawing.save_svg)
    outcomes = [
        *killed(tmp_path / "root", lambda root: write_pictures(root, "old"), write_pictures)
    ]
    before, after = outcomes[0][0], outcomes[-1][0]
    assert before != after
    assert all(content in (before, after) and again == after for content, again in outcomes)


def test_one_of_many_processes_that_start_at_once_gets_the_lock(tmp_path):
    """Each waits for the same moment, then claims, and keeps what it got."""
    code = """
import sys, time
from pathlib import Path
from keras_bert_impl.utils.io.files import claim

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
        replies = [[process.stdout.readline().strip() for _ in runs] for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    for outcomes in zip(*replies):
        assert sorted(outcomes) == ["mine", "refused", "refused"]
