import errno
import os
import stat

import pytest

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io import paths
from keras_bert_impl.utils.io.files import claim, replace_directory, replace_file, replace_files
from tests.helpers import small_disk


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_creates_a_file_and_its_folders(tmp_path):
    with replace_file(tmp_path / "a" / "b" / "scores.json") as temporary:
        assert not (tmp_path / "a" / "b" / "scores.json").exists()
        temporary.write_text("{}")
    assert (tmp_path / "a" / "b" / "scores.json").read_text() == "{}"
    assert names(tmp_path / "a" / "b") == ["scores.json"]


def test_file_is_replaced_and_readable_as_usual(tmp_path):
    (tmp_path / "plain").write_text("old")
    usual = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    with replace_file(str(tmp_path / "plain")) as temporary:
        temporary.write_text("new")
        assert (tmp_path / "plain").read_text() == "old"
    assert (tmp_path / "plain").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == usual


def test_failed_file_leaves_the_old_one(tmp_path):
    (tmp_path / "f").write_text("old")
    with pytest.raises(KeyError), replace_file(tmp_path / "f") as temporary:
        temporary.write_text("half")
        raise KeyError
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_creates_a_directory(tmp_path):
    with replace_directory(tmp_path / "run") as temporary:
        (temporary / "a").write_text("1")
        assert not (tmp_path / "run").exists()
    assert names(tmp_path) == ["run"]
    assert names(tmp_path / "run") == ["a"]


def test_directory_is_filled_and_keeps_the_rest(tmp_path):
    run = tmp_path / "run"
    (run / "model").mkdir(parents=True)
    (run / "model" / "stale").write_text("old")
    (run / "notes").write_text("mine")
    (run / "scores").write_text("old")
    with replace_directory(run) as temporary:
        (temporary / "model").mkdir()
        (temporary / "model" / "weights").write_text("new")
        (temporary / "scores").write_text("new")
    assert names(run) == ["model", "notes", "scores"]
    assert names(run / "model") == ["weights"]
    assert [(run / name).read_text() for name in ("notes", "scores")] == ["mine", "new"]


@pytest.mark.parametrize("exists", [False, True])
def test_failed_directory_leaves_nothing(tmp_path, exists):
    if exists:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "a").write_text("old")
    with pytest.raises(KeyError), replace_directory(tmp_path / "run") as temporary:
        (temporary / "a").write_text("half")
        raise KeyError
    assert names(tmp_path) == (["run"] if exists else [])
    if exists:
        assert names(tmp_path / "run") == ["a"]
        assert (tmp_path / "run" / "a").read_text() == "old"


def test_current_directory_can_be_filled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with replace_directory(".") as temporary:
        (temporary / "a").write_text("1")
    assert names(tmp_path) == ["a"]


def test_mount_point_is_filled_from_inside(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(paths, "_list_mounts", lambda path: [tmp_path / "disk"])
    (tmp_path / "disk" / "notes").write_text("mine")
    inode = (tmp_path / "disk").stat().st_ino
    with replace_directory(tmp_path / "disk") as temporary:
        assert (tmp_path / "disk") in temporary.parents
        (temporary / "a").write_text("1")
    assert names(tmp_path / "disk") == ["a", "notes"]
    assert (tmp_path / "disk").stat().st_ino == inode


def test_directory_with_a_mount_point_in_it_keeps_it(tmp_path):
    (tmp_path / "run").mkdir()
    with small_disk(tmp_path / "run" / "disk"):
        (tmp_path / "run" / "disk" / "thesis").write_text("mine")
        with replace_directory(tmp_path / "run") as temporary:
            (temporary / "a").write_text("1")
        assert (tmp_path / "run" / "disk" / "thesis").read_text() == "mine"
        assert (tmp_path / "run" / "a").read_text() == "1"


def test_link_to_a_directory_stays_and_the_directory_is_replaced(tmp_path):
    (tmp_path / "disk" / "model").mkdir(parents=True)
    (tmp_path / "disk" / "model" / "a").write_text("old")
    (tmp_path / "disk" / "model" / "notes").symlink_to("../elsewhere")
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "model")
    with replace_directory(tmp_path / "model") as temporary:
        (temporary / "a").write_text("new")
    assert (tmp_path / "model").is_symlink()
    assert (tmp_path / "disk" / "model" / "a").read_text() == "new"
    assert os.readlink(tmp_path / "disk" / "model" / "notes") == "../elsewhere"
    assert names(tmp_path / "disk") == ["model"]


def test_other_entries_keep_content_links_and_permissions(tmp_path):
    run = tmp_path / "run"
    (run / "mine").mkdir(parents=True)
    (run / "mine" / "thesis").write_text("mine")
    (run / "link").symlink_to(tmp_path / "missing")
    os.chmod(run / "mine", 0o750)
    os.chmod(run, 0o711)
    inode = (run / "mine" / "thesis").stat().st_ino
    with open(run / "log", "w") as log:
        with replace_directory(run) as temporary:
            (temporary / "a").write_text("1")
        log.write("appended by another process")
    assert names(run) == ["a", "link", "log", "mine"]
    assert (run / "mine" / "thesis").stat().st_ino == inode
    assert (run / "log").read_text() == "appended by another process"
    assert os.readlink(run / "link") == str(tmp_path / "missing")
    assert stat.S_IMODE((run / "mine").stat().st_mode) == 0o750
    assert stat.S_IMODE(run.stat().st_mode) == 0o711
    assert names(tmp_path) == ["run"]


def test_what_appears_meanwhile_is_kept(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    exchange = paths._swap_names

    def late(new, path):
        (run / "late").write_text("mine")
        return exchange(new, path)

    monkeypatch.setattr(paths, "_swap_names", late)
    with replace_directory(run) as temporary:
        (temporary / "a").write_text("1")
    assert names(run) == ["a", "late"]


def test_files_are_copied_where_links_are_not_possible(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").write_text("mine")
    with replace_directory(tmp_path / "run") as temporary:
        (temporary / "a").write_text("1")
    assert names(tmp_path / "run") == ["a", "notes"]
    assert (tmp_path / "run" / "notes").read_text() == "mine"


def test_planted_links_are_not_followed(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "model"
    home.mkdir()
    folder.mkdir()
    (home / "keys").write_text("mine")
    (folder / ".model.0123abcd.aside").symlink_to(home)
    (folder / ".model.0123abce.aside").mkdir()
    (folder / ".model.0123abce.aside" / "lock").symlink_to(home / "keys")
    (folder / ".model.0123abcf.aside").mkdir()
    (folder / ".model.0123abcf.aside" / "lock").symlink_to(home / "new")
    (folder / ".model.01230000.aside").mkdir()
    (folder / ".model.01230000.aside" / "old").symlink_to(home)
    (folder / ".writing").symlink_to(home / "new")
    with replace_file(folder / "a") as temporary:
        temporary.write_text("1")
    with replace_directory(folder) as temporary:
        (temporary / "b").write_text("1")
    assert names(home) == ["keys"]
    assert (home / "keys").read_text() == "mine"
    (folder / ".lock").symlink_to(home / "new")
    with pytest.raises(InputError, match="lock is a link to .*. Choose another name"):
        claim(folder / ".lock")
    assert names(home) == ["keys"]


def test_long_name(tmp_path):
    name = "n" * 255  # the maximum of common file systems
    with replace_file(tmp_path / name) as temporary:
        temporary.write_text("1")
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("replace", [replace_file, replace_directory])
def test_converts_write_errors_to_one_input_error(tmp_path, replace, code):
    message = f"cannot write .*out: {os.strerror(code)}.*Nothing was written"
    with pytest.raises(InputError, match=message), replace(tmp_path / "out"):
        raise OSError(code, os.strerror(code))
    assert names(tmp_path) == []


def test_other_errors_are_not_hidden(tmp_path):
    with pytest.raises(FileNotFoundError), replace_file(tmp_path / "out"):
        (tmp_path / "missing").read_text()


def test_full_disk(tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk):
        with replace_file(disk / "out") as temporary:
            temporary.write_bytes(b"old")
        with pytest.raises(InputError, match="cannot write .*out: "):
            with replace_file(disk / "out") as temporary:
                temporary.write_bytes(bytes(3 * 2**20))
        with pytest.raises(InputError, match="cannot write .*run: "):
            with replace_directory(disk / "run") as temporary:
                (temporary / "weights").write_bytes(bytes(3 * 2**20))
        assert names(disk) == ["out"]
        assert (disk / "out").read_bytes() == b"old"


def test_recognizes_a_full_disk_in_library_errors(tmp_path):
    words = "Error while serializing: I/O error: No space left on device (os error 28)"
    message = f"cannot write {tmp_path / 'deep' / 'out'}: No space left on device. Nothing was"
    with pytest.raises(InputError, match=message), replace_directory(tmp_path / "deep" / "out"):
        raise RuntimeError(words)
    assert names(tmp_path) == []
    with pytest.raises(RuntimeError, match="of no concern"), replace_file(tmp_path / "out"):
        raise RuntimeError("of no concern")


def test_files_appear_together(tmp_path):
    paths = tmp_path / "a.npy", tmp_path / "a.jsonl"
    with replace_files(*paths) as temporary:
        for path in temporary:
            path.write_text("second")
    with pytest.raises(KeyError), replace_files(*paths) as temporary:
        temporary[0].write_text("third")
        raise KeyError
    assert [path.read_text() for path in paths] == ["second", "second"]
    assert names(tmp_path) == ["a.jsonl", "a.npy"]


def test_scratch_of_others_is_left_alone(tmp_path):
    """Scratch of running processes, and names that only resemble scratch."""
    (tmp_path / ".out.original").mkdir()
    (tmp_path / ".out.0123abcd").mkdir()
    (tmp_path / ".out.0123abcd.bak").write_text("mine")
    with replace_directory(tmp_path / "out") as living:
        (living / "a").write_text("1")
        with replace_directory(tmp_path / "out") as rival:
            (rival / "a").write_text("2")
        assert (living / "a").exists()
    assert (tmp_path / "out" / "a").read_text() == "1"
    assert names(tmp_path) == [".out.0123abcd", ".out.0123abcd.bak", ".out.original", "out"]


def test_restores_all_entries_if_one_cannot_be_moved(tmp_path, monkeypatch):
    with replace_directory(tmp_path / "out") as new:
        for name in "a", "b", "c":
            (new / name).write_text("old")
    monkeypatch.chdir(tmp_path / "out")  # so that it cannot be replaced as a whole
    replace = os.replace

    def refuse(source, target):
        if str(source).endswith("out/b"):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, match="cannot write .*out: Operation not permitted"):
        with replace_directory(tmp_path / "out") as new:
            for name in "a", "b", "c":
                (new / name).write_text("new")
    assert names(tmp_path / "out") == ["a", "b", "c"]
    assert {(tmp_path / "out" / name).read_text() for name in "abc"} == {"old"}


def test_path_of_the_wrong_kind(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a directory. Pass the name of a file"):
        with replace_file(tmp_path):
            raise AssertionError("the block must not run")
    with pytest.raises(InputError, match="file is a file. Pass the name of a directory"):
        with replace_directory(tmp_path / "file"):
            raise AssertionError("the block must not run")
    with pytest.raises(InputError, match="cannot write .*below"):
        with replace_directory(tmp_path / "file" / "below"):
            raise AssertionError("the block must not run")
    for replace in replace_file, replace_directory:
        with pytest.raises(InputError, match="gs:.* is not on this machine"):
            with replace("gs://bucket/out"):
                raise AssertionError("the block must not run")


def test_errors_name_the_outer_of_nested_outputs(tmp_path):
    with small_disk(tmp_path / "disk"):
        with pytest.raises(InputError, match=f"cannot write {tmp_path}/disk/out: "):
            with replace_directory(tmp_path / "disk" / "out") as folder:
                with replace_file(folder / "part") as file:
                    file.write_bytes(bytes(2 << 20))
