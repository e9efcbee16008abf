"""An interrupted `prepare` resumes from its finished blocks and writes the same bytes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap

import filelock
import pytest

from keras_bert_impl.pretraining.corpus import blocks
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.utils.errors import InputError

ARGUMENTS = {
    "length": 32,
    "held_out": 0.1,
    "block_characters": 4000,
    "num_open_shards": 4,
    "rows_per_shard": 64,
    "seed": 3,
}  # same as `records_directory`


@pytest.fixture
def interrupted(tmp_path, corpus, tokenizer):
    """`Path` of records interrupted by Ctrl-C after the third block."""
    reports = []

    def progress(report):
        reports.append(report)
        if len(reports) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(
            corpus, tmp_path / "records", tokenizer, num_workers=1, progress=progress, **ARGUMENTS
        )
    return tmp_path / "records"


@pytest.fixture
def built(monkeypatch):
    """Records the numbers of blocks built from now on."""
    numbers, build = [], blocks.build_block

    def counting(text_block, *arguments):
        numbers.append(text_block.number)
        return build(text_block, *arguments)

    monkeypatch.setattr(blocks, "build_block", counting)
    return numbers


def assert_same(directory, expected):
    files = sorted(path.name for path in expected.iterdir())
    assert sorted(path.name for path in directory.iterdir()) == files
    for name in files:
        assert (directory / name).read_bytes() == (expected / name).read_bytes()


def test_builds_only_missing_blocks(interrupted, corpus, tokenizer, records_directory, built):
    folder = interrupted.parent
    assert [path.name for path in folder.iterdir()] == [".records.unfinished"]
    (folder / ".records.a1b2c3d4.aside" / "records").mkdir(
        parents=True
    )  # as a killed run leaves it
    (folder / ".records.original").mkdir()
    (folder / ".records.original" / "thesis.txt").write_text("precious")
    prepare(corpus, interrupted, tokenizer, num_workers=1, **ARGUMENTS)
    assert built == list(range(3, 3 + len(built))) and len(built) > 3
    assert_same(interrupted, records_directory)
    assert sorted(path.name for path in folder.iterdir()) == [".records.original", "records"]
    assert (folder / ".records.original" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("change", ["seed", "text", "cut", "damage"])
def test_rebuilds_blocks_that_do_not_match(
    interrupted, corpus, tokenizer, built, tmp_path, change, records_directory
):
    arguments = dict(ARGUMENTS)
    first = interrupted.parent / ".records.unfinished" / "00000000.block"
    if change == "seed":
        arguments["seed"] = 4
    elif change == "text":
        first_document, second, *tail = corpus.read_text().split("\n\n")  # the first is held out
        second = ("ab" if second.startswith("aa") else "aa") + second[2:]
        corpus = tmp_path / "corpus.txt"
        corpus.write_text("\n\n".join([first_document, second, *tail]))
    elif change == "cut":  # after the first line
        content = first.read_bytes()
        first.write_bytes(content[: content.index(b"\n") + 1])
    else:
        content = bytearray(first.read_bytes())
        content[-20] ^= 1
        first.write_bytes(content)
    prepare(corpus, interrupted, tokenizer, num_workers=1, **arguments)
    if change == "seed":
        assert built[:3] == [0, 1, 2]
        return
    assert built[0] == 0 and 1 not in built and 2 not in built
    if change != "text":
        assert_same(interrupted, records_directory)


def test_a_missing_parent_folder_is_created(tmp_path, corpus, tokenizer, records_directory):
    directory = tmp_path / "new" / "folder" / "records"
    prepare(corpus, directory, tokenizer, num_workers=1, **ARGUMENTS)
    assert_same(directory, records_directory)
    assert [path.name for path in directory.parent.iterdir()] == ["records"]


def test_bad_input_keeps_finished_blocks(interrupted, tokenizer, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_text("aa ab.\nac ad.\n")
    with pytest.raises(InputError, match="only one distinct document"):
        prepare(bad, interrupted, tokenizer, num_workers=1)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".records.unfinished", "bad.txt"]


def test_rejects_two_prepares_at_a_time(interrupted, corpus, tokenizer):
    folder = interrupted.parent / ".records.unfinished"
    with filelock.FileLock(folder / "lock"):
        with pytest.raises(InputError, match="another prepare is writing to"):
            prepare(corpus, interrupted, tokenizer, num_workers=1, **ARGUMENTS)
    assert (folder / "00000002.block").exists()


def test_records_made_in_an_existing_folder_resume_beside_it(
    interrupted, corpus, tokenizer, built, records_directory
):
    interrupted.mkdir()
    prepare(corpus, interrupted, tokenizer, num_workers=1, **ARGUMENTS)
    assert built[0] == 3
    assert_same(interrupted, records_directory)
    assert not (interrupted.parent / ".records.unfinished").exists()


def test_a_mount_point_has_its_finished_blocks_inside(
    interrupted, corpus, tokenizer, built, records_directory, monkeypatch
):
    interrupted.mkdir()
    shutil.move(interrupted.parent / ".records.unfinished", interrupted)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == interrupted)
    prepare(corpus, interrupted, tokenizer, num_workers=1, **ARGUMENTS)
    assert built[0] == 3
    assert_same(interrupted, records_directory)


def test_blocks_left_by_a_kill_after_the_records_appeared_are_removed(
    tmp_path, corpus, tokenizer, monkeypatch
):
    remove = shutil.rmtree

    def killed(path, *arguments, **options):
        if not str(path).endswith(".unfinished"):
            remove(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        prepare(corpus, tmp_path / "records", tokenizer, num_workers=1, **ARGUMENTS)
    assert ".records.unfinished" in {path.name for path in tmp_path.iterdir()}
    prepare(corpus, tmp_path / "records", tokenizer, num_workers=1, **ARGUMENTS)
    assert ".records.unfinished" not in {path.name for path in tmp_path.iterdir()}


def test_finished_blocks_are_not_written_through_a_link(tmp_path, corpus, tokenizer):
    (tmp_path / "home").mkdir()
    (tmp_path / ".records.unfinished").symlink_to(tmp_path / "home")
    with pytest.raises(InputError, match=r"\.records\.unfinished is a link"):
        prepare(corpus, tmp_path / "records", tokenizer, num_workers=1, **ARGUMENTS)
    assert not any((tmp_path / "home").iterdir())


def test_replaces_records_in_a_relative_folder(
    tmp_path, corpus, tokenizer, records_directory, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for name in "records", "records", "./elsewhere/../records":
        prepare(corpus, name, tokenizer, num_workers=1, **ARGUMENTS)
        assert_same(tmp_path / "records", records_directory)


@pytest.mark.slow
def test_kills_change_no_byte(tmp_path, corpus, tokenizer, records_directory):
    """Two workers, killed after random numbers of blocks until a run finishes."""
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import os, signal, sys
        from keras_bert_impl.pretraining.corpus import preparation
        from keras_bert_impl.tokenizers import Tokenizer

        def progress(one, left=[int(sys.argv[1])]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            preparation._SECONDS_ALONE = 0
            preparation.prepare(
                {str(corpus)!r}, {str(tmp_path / "records")!r},
                Tokenizer.from_pretrained({str(tmp_path / "tokenizer")!r}),
                num_workers=2, progress=progress, **{ARGUMENTS!r},
            )
    """)
    )
    generator, killed, before = random.Random(0), 0, 0
    while True:
        before += generator.randint(1, 4)  # each run gets further than the last
        # The output closes when the last worker exits, so no worker is left running.
        process = subprocess.run(
            [sys.executable, program, str(before)], timeout=300, capture_output=True
        )
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        killed += 1
    assert killed >= 2
    assert_same(tmp_path / "records", records_directory)
    assert not list(tmp_path.glob(".records*"))
