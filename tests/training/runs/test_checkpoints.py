import concurrent.futures
import multiprocessing
import re
import resource
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.training.runs.checkpoints import RunCheckpoint
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.training.helpers import adamw, build, dataset, distance, result_of, start


def compiled(replicas=1, **model):
    with mirrored(replicas).scope():
        compiled_model = build(**model)
        compiled_model.compile(adamw(), jit_compile=False)
    return compiled_model


def fit(model, checkpoint, epochs=2, initial_epoch=0):
    model.fit(
        dataset(16, 16).repeat(),
        steps_per_epoch=1,
        initial_epoch=initial_epoch,
        epochs=epochs,
        verbose=0,
        callbacks=[checkpoint],
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model trained for 2 epochs on 2 replicas, and its checkpoint directory."""
    directory = tmp_path_factory.mktemp("run") / "checkpoints"
    model = compiled(2)
    fit(model, RunCheckpoint(model, directory, seed=7))
    return model, directory


@pytest.fixture
def run(trained, tmp_path):
    """Same as `trained`, with a copy of the directory that the test may damage."""
    model, directory = trained
    return model, shutil.copytree(directory, tmp_path / "checkpoints")


def damage(directory, number, kind="data-00000-of-00001"):
    path = directory / f"ckpt-{number}.{kind}"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_new_run_starts_at_epoch_0(tmp_path):
    assert RunCheckpoint(compiled(), tmp_path / "none").restore() == 0


def test_restores_into_another_number_of_replicas(run):
    model, directory = run
    restored = compiled(1, seed=3)
    assert RunCheckpoint(restored, directory, seed=7).restore() == 2
    assert distance(restored, model) == 0
    for mine, theirs in zip(restored.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    assert int(restored.optimizer.iterations.numpy()) == 2


def test_keeps_the_last_checkpoints(tmp_path):
    model = compiled()
    fit(model, RunCheckpoint(model, tmp_path, max_to_keep=2), epochs=4)
    assert sorted(path.stem for path in tmp_path.glob("*.index")) == ["ckpt-3", "ckpt-4"]


@pytest.mark.parametrize("kind", ["data-00000-of-00001", "index"])
def test_a_damaged_newest_checkpoint_falls_back(run, caplog, kind):
    _, directory = run
    damage(directory, 2, kind)
    model = compiled()
    checkpoint = RunCheckpoint(model, directory, seed=7)
    assert checkpoint.restore() == 1
    assert int(model.optimizer.iterations.numpy()) == 1
    assert "ckpt-2" in caplog.text
    # The run resumes there and replaces the damaged checkpoint.
    fit(model, checkpoint, initial_epoch=1)
    assert RunCheckpoint(compiled(), directory, seed=7).restore() == 2


def test_checkpoints_within_an_epoch(tmp_path):
    """The last batch has none, since the end of the epoch follows."""
    model = compiled()
    checkpoint = RunCheckpoint(model, tmp_path, minutes=1e-9)
    model.fit(dataset(16, 64), epochs=2, verbose=0, callbacks=[checkpoint])
    names = {path.stem for path in tmp_path.glob("*.index")}
    assert names == {"ckpt-1-2", "ckpt-1-3", "ckpt-2"}
    for file in tmp_path.glob("ckpt-2.*"):
        file.unlink()
    for file in tmp_path.glob("ckpt-1-2.*"):  # a copy under another number is ignored
        shutil.copy(file, tmp_path / file.name.replace("1-2", "1-4"))
    damage(tmp_path, "1-3")
    restored = compiled(seed=3)
    checkpoint = RunCheckpoint(restored, tmp_path)
    assert (checkpoint.restore(), checkpoint.batches) == (1, 2)
    assert int(restored.optimizer.iterations.numpy()) == 6


def test_a_flipped_byte_is_noticed(run):
    _, directory = run
    path = directory / "ckpt-2.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert RunCheckpoint(compiled(), directory, seed=7).restore() == 1


def test_a_damaged_list_of_checkpoints_does_not_matter(run):
    _, directory = run
    (directory / "checkpoint").write_bytes(b"\x00garbage\xff\xfe")
    assert RunCheckpoint(compiled(), directory, seed=7).restore() == 2


def copied(directory, number, to):
    for file in directory.glob(f"ckpt-{number}.*"):
        shutil.copy(file, directory / file.name.replace(f"ckpt-{number}", f"ckpt-{to}"))


def test_a_copy_under_another_number_is_ignored(run, caplog):
    _, directory = run
    copied(directory, 1, to=99)
    copied(directory, 1, to=98)
    copied(directory, 1, to=97)
    model = compiled()
    checkpoint = RunCheckpoint(model, directory, seed=7, num_epochs=3)
    assert checkpoint.restore() == 2
    assert RunCheckpoint(compiled(), directory, seed=7).restore() == 2
    assert "ckpt-99 (the file is a renamed ckpt-1)" in caplog.text
    fit(model, checkpoint, initial_epoch=2, epochs=3)  # removes none of its own
    assert {f"ckpt-{n}.index" for n in (1, 2, 3)} <= {path.name for path in directory.iterdir()}
    assert RunCheckpoint(compiled(), directory, seed=7, num_epochs=3).restore() == 3
    assert (
        RunCheckpoint(compiled(), directory, seed=7, num_epochs=2).restore() == 2
    )  # of a longer run


def test_all_damaged_is_an_error_that_names_the_files(run):
    _, directory = run
    damage(directory, 1)
    damage(directory, 2, "index")
    with pytest.raises(InputError, match="no checkpoint can be read: .*ckpt-2, .*ckpt-1"):
        RunCheckpoint(compiled(), directory, seed=7).restore()


def message_of_save(directory):
    """Saves a checkpoint with a limit on the size of files, for all of this process."""
    model = compiled()
    checkpoint = RunCheckpoint(model, directory, seed=7)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    try:
        checkpoint.save(3)
    except InputError as error:
        return str(error)


@pytest.fixture(params=["no space", "file size limit"])
def failed_save(request, monkeypatch):
    """Returns a function that saves a checkpoint in vain: (model, directory) to (cause, message)."""
    if request.param == "no space":

        def save(*_, **__):
            raise tf.errors.ResourceExhaustedError(
                None, None, "{{function_node save}} ckpt-2_temp/part-0; No space left [Op:SaveV2]"
            )

        def here(model, directory):
            monkeypatch.setattr(tf.train.Checkpoint, "write", save)
            with pytest.raises(InputError) as error:
                RunCheckpoint(model, directory, seed=7).save(3)
            return "No space left", str(error.value)

        return here

    def elsewhere(_, directory):
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return "File too large", pool.submit(message_of_save, directory).result()

    return elsewhere


def test_full_disk_keeps_earlier_checkpoints(run, failed_save):
    model, directory = run
    before = sorted(directory.iterdir())
    cause, message = failed_save(model, directory)
    assert re.search(f"cannot write .*ckpt-3: {cause}. .* are intact", message)
    assert sorted(directory.iterdir()) == before
    assert RunCheckpoint(compiled(), directory, seed=7).restore() == 2


def test_rejects_another_architecture_naming_a_variable(run):
    _, directory = run
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(2, name="answer")(inputs))
    model.compile(adamw())
    with pytest.raises(InputError, match=r"answer/kernel has shape \(4, 2\) here and \(40, 16\)"):
        RunCheckpoint(model, directory, seed=7).restore()


def test_rejects_another_seed(run):
    _, directory = run
    with pytest.raises(InputError, match="belongs to a run with seed 7, not 8"):
        RunCheckpoint(compiled(), directory, seed=8).restore()


@pytest.mark.slow
def test_a_killed_run_resumes_to_bit_identical_weights(tmp_path):
    undisturbed = result_of(start("run_with_checkpoints.py", tmp_path / "undisturbed"))
    first = start("run_with_checkpoints.py", tmp_path / "killed")
    for line in first.stdout:
        if line.startswith("step 5"):  # the first step of the third epoch
            first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    resumed = result_of(start("run_with_checkpoints.py", tmp_path / "killed"))
    assert undisturbed["start"] == 0
    assert 2 <= resumed["start"] < 4
    assert resumed["weights"] == undisturbed["weights"]
