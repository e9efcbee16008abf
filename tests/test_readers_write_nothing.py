"""Commands that read a stranger's folder change nothing outside of their own output."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert_impl import Adapter
from keras_bert_impl.cli.main import main
from tests.tasks.helpers import examples, save_base, tokenizer
from tests.training.helpers import free_ports

SCRIPT = Path(__file__).with_name("audited.py")


def run(*arguments):
    assert main([str(argument) for argument in arguments]) == 0, arguments


def write_table(path, seed):
    rows = zip(*examples(count=24, seed=seed))
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    return path


def plant(folder, home):
    """Puts links, locks and leftovers into a folder and its subfolders, which all lead to `home`."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for place in folders:
        for name in {place.name, "model", "config.json"}:
            stem = f".{name}.0123abcd"
            (place / f"{stem}.aside").symlink_to(home)
            (place / f"{stem}.writing").symlink_to(home / "keys")
            (place / f".{name}.0123abce.writing").symlink_to(home / "new")
            aside = place / f".{name}.0123abcf.aside"
            (aside / "new").mkdir(parents=True)
            (aside / "lock").symlink_to(home / "keys")
            (aside / "old").symlink_to(home)
            dead = place / f".{name}.01230000.aside"
            (dead / "new").mkdir(parents=True)
            (dead / "lock").touch()
            (dead / "old").symlink_to(home)
            (place / f".{name}.unfinished").symlink_to(home)
        (place / ".replacing").mkdir()
        (place / ".replacing" / ".owner").write_text(f".{place.name}.0123abcd")
        (place / ".replacing" / "keys").write_text("evil")
        (place / "keys").write_text("evil")
        for name in (".lock", ".writing", "lock", "checkpoint"):
            if not os.path.lexists(place / name):
                (place / name).symlink_to(home / "keys")


def state(folder):
    """Everything in a folder: kind, target, time and content."""
    entries = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else None
        if content is None and path.is_file():
            content = path.read_bytes()
        entries[str(path.relative_to(folder))] = status.st_mtime_ns, status.st_mode, content
    return entries


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Folders of a stranger, and `home` with files of the user."""
    root = tmp_path_factory.mktemp("world")
    stranger, home = root / "stranger", root / "home"
    for folder in (stranger, home, root / "out"):
        folder.mkdir()
    (home / "keys").write_text("mine")
    (home / "thesis").mkdir()
    (home / "thesis" / "thesis.tex").write_text("mine")
    train, dev = (write_table(root / f"{seed}.tsv", seed) for seed in (0, 1))
    base = save_base(stranger / "base", initializer_range=0.02)  # as KerasHub
    columns = ["--text", "text", "--label", "label", "--train", train, "--dev", dev]
    small = ["--epochs=1", "--max-length=16", "--batch-size=8"]
    run("finetune", "--model", base, *columns, "--out", stranger / "run", *small)
    lora = Adapter("lora", size=2)
    finetune_lora(base, root, stranger / "lora", lora)
    run("export", "--model", stranger / "run", "--out", stranger / "export")
    (root / "corpus.txt").write_text("\n\n".join(f"{t}.\n{t} a plot." for t in examples(60)[0]))
    tokenizer().save_pretrained(stranger / "tokenizer")
    prepare = ["prepare", root / "corpus.txt", "--tokenizer", stranger / "tokenizer"]
    run(*prepare, "--length", "32", "--workers", "1", "--out", stranger / "records")
    write_vectors = ["embed", root / "corpus.txt", "--model", base]
    run(*write_vectors, "--out", stranger / "vectors" / "v.npy")
    for folder in stranger.iterdir():
        plant(folder, home)
    return root


def finetune_lora(base, root, out, adapter):
    from keras_bert_impl.tasks import TextClassifier
    from keras_bert_impl.training.tuning import save_tuned

    model = TextClassifier.from_pretrained(base, labels=["negative", "positive"], adapter=adapter)
    save_tuned(model, out, base)


def commands(world):
    source, out = world / "stranger", world / "out"
    table, text = world / "1.tsv", world / "corpus.txt"
    columns = ["--text", "text", "--label", "label"]
    examples_of = [*columns, "--train", world / "0.tsv", "--dev", table]
    small = ["--epochs=1", "--max-length=16", "--batch-size=8"]
    port = str(free_ports(1)[0])
    steps = ["--total-steps", "2", "--batch-size", "8", "--report-every=1"]
    return [
        ["predict", "--model", source / "run", "--input", table, "--text", "text", "--out", out / "p.csv"],
        ["evaluate", "--model", source / "run", "--dev", table, *columns, "--out", out / "scores"],
        ["embed", text, "--model", source / "base", "--out", out / "v.npy"],
        ["search", "--model", source / "base", "--vectors", source / "vectors" / "v.npy", "a good plot"],
        ["look", source / "run", "a good film", "--out", out / "look.html"],
        ["report", source / "run", "--out", out / "report.html"],
        ["drift", "--model", source / "run", "--served", table, "--text", "text"],
        ["export", "--model", source / "run", "--out", out / "export"],
        ["export", "--model", source / "lora", "--out", out / "export-lora"],
        ["convert", "--from", source / "base", "--to", out / "google", "--form", "google"],
        ["convert", "--from", source / "base", "--to", out / "keras_hub", "--form", "keras_hub", "--activation", "gelu_tanh"],
        ["convert", "--from", source / "run" / "model", "--to", out / "huggingface"],
        ["merge", "--model", source / "lora", "--base", source / "base", "--out", out / "merged"],
        ["student", "--teacher", source / "base", "--layers", "1", "--out", out / "student"],
        ["finetune", "--model", source / "base", *examples_of, "--out", out / "run", *small],
        ["pretrain", source / "records", "--out", out / "pretrained", "--model", source / "base", *steps],
        ["adapt", text, "--model", source / "base", "--out", out / "adapted", "--adapt-steps=2", "--adapt-batch-size=8"],
        ["prepare", text, "--tokenizer", source / "base", "--length", "32", "--workers", "1", "--out", out / "records"],
        ["serve", source / "export", "--name", "export", "--port", port],
    ]  # fmt: skip


@pytest.mark.slow
def test_reading_a_strangers_folder_changes_nothing_outside(world):
    before = state(world / "stranger"), state(world / "home")
    temporary = world / "tmp"
    temporary.mkdir()
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TMPDIR": str(temporary),
        "HOME": str(temporary),
        "KERAS_HOME": str(temporary),
        "MPLCONFIGDIR": str(temporary),
    }
    texts = [[str(argument) for argument in command] for command in commands(world)]
    control = str(world / "home" / "control.npy")  # shows that the hook sees what it should
    texts.append(["embed", str(world / "corpus.txt"), "--model", texts[2][3], "--out", control])
    allowed = ":".join(map(str, (world / "out", temporary)))
    process = subprocess.run(
        [sys.executable, str(SCRIPT), allowed, json.dumps(texts)],
        env=environment,
        cwd=world / "out",
        capture_output=True,
        text=True,
        timeout=1200,
    )
    lines = process.stdout.splitlines()
    ended = [line.split()[1:3] for line in lines if line.startswith("END")]
    assert ended == [["0", command[0]] for command in texts], process.stderr[-3000:]
    print(*(line[:150] for line in lines if line.startswith(("END", "OUTSIDE"))), sep="\n")
    outside = [line for line in lines if line.startswith("OUTSIDE")]
    assert outside and all(f" {world}/home" in line for line in outside), outside
    for name in ("control.npy", "control.jsonl"):
        (world / "home" / name).unlink()
    after = state(world / "stranger"), state(world / "home")
    assert after[0] == before[0]
    assert {name: entry[2] for name, entry in after[1].items()} == {
        name: entry[2] for name, entry in before[1].items()
    }


@pytest.mark.slow
def test_writing_into_a_strangers_folder_follows_no_link(world):
    """Our own output is a copy of the stranger's folder, with everything that was planted."""
    before = state(world / "home")
    for name in ("base", "run", "records"):
        shutil.copytree(world / "stranger" / name, world / "copy" / name, symlinks=True)
    copy, text = world / "copy", world / "corpus.txt"
    run(
        "student", "--teacher", world / "stranger" / "base", "--layers", "1", "--out", copy / "base"
    )
    run("embed", text, "--model", world / "stranger" / "base", "--out", copy / "run" / "v.npy")
    tokenizer().save_pretrained(copy / "run" / "model")
    assert state(world / "home") == before
