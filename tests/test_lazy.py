"""What is loaded late or not at all."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap

import pytest

from keras_bert_impl.lazy import _NOTICES, without_lines

TEXT = "One sentence. And two.\n\nA second document. It goes on.\n\nA third one. It ends here.\n\n"


def _run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-800:]
    return done.stdout.split()


def test_start_of_tensorflow_is_quiet():
    """In a process without a log level, as in a notebook."""
    code = "from keras_bert_impl import TextClassifier; import tensorflow as tf; tf.constant(1)"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(bool(importlib.util.find_spec("tf_keras")), reason="Keras 2 is installed")
def test_a_variable_that_asks_for_keras_2_is_named():
    pytest.importorskip("tensorflow_text")  # nothing else imports Keras by TensorFlow
    code = "from keras_bert_impl import TextClassifier"
    environment = os.environ | {"TF_USE_LEGACY_KERAS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "Unset TF_USE_LEGACY_KERAS" in done.stderr.splitlines()[-1]


def test_the_trace_of_a_missing_gpu_is_left_out(capfd):
    trace = b"=== Source Location Trace: ===\nexternal/xla/cuda_status.cc:50\n\n"

    def function():
        os.write(
            2, b"E0000 1 a.cc:2] failed call to cuInit: no device\n" + trace + b"E0000 other\n"
        )

    without_lines(_NOTICES, function)
    assert capfd.readouterr().err == "E0000 other\n"


def test_only_matching_lines_are_left_out(capfd):
    def function():
        os.write(2, b"I0000 a notice\nW0000 a warning\nI0000 another\n")
        return 5

    assert without_lines(re.compile(rb"^I0000 .*\n", re.MULTILINE), function) == 5
    with pytest.raises(KeyError):
        without_lines(re.compile(rb"a"), lambda: {}["b"])
    assert capfd.readouterr().err == "W0000 a warning\n"


@pytest.mark.slow
def test_tensorflow_alone():
    code = """
        import sys
        from keras_bert_impl.lazy import import_tensorflow_alone
        import_tensorflow_alone()
        import tensorflow
        print([name for name in ("jax", "matplotlib", "scipy") if name in sys.modules])
        import jax.numpy, matplotlib.pyplot, scipy.special
        print(float(jax.numpy.ones(3).sum() + scipy.special.expit(0)))
    """
    assert _run(code) == ["[]", "3.5"]


def test_prepare_imports_no_optional_packages(tmp_path):
    (tmp_path / "corpus.txt").write_text(TEXT)
    code = """
        import concurrent.futures, multiprocessing, sys
        from keras_bert_impl.cli.main import main
        from keras_bert_impl.pretraining.corpus import build_worker

        folder = sys.argv[1]
        assert main(["vocab", f"{folder}/corpus.txt", "--out", f"{folder}/tokenizer", "--size", "60"]) == 0
        arguments = [f"{folder}/corpus.txt", "--tokenizer", f"{folder}/tokenizer", "--workers", "1"]
        assert main(["prepare", *arguments, "--out", f"{folder}/records", "--objective", "mlm"]) == 0
        settings = dict(
            length=128, objective="mlm", passes=1, short_sequence_probability=0.1, pack=True,
            max_examples_per_row=8, seed=0, random_next_share=0.5,
        )
        with concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), build_worker.start, (f"{folder}/tokenizer", settings)
        ) as worker:
            modules = worker.submit(eval, "list(__import__('sys').modules)").result()
        for loaded in sys.modules, modules:
            print([name for name in ("tensorflow", "jax", "matplotlib", "scipy") if name in loaded])
    """
    assert _run(code, str(tmp_path))[-2:] == ["['tensorflow']"] * 2


def test_text_is_read_without_tensorflow(tmp_path):
    (tmp_path / "corpus.txt").write_text(TEXT)
    code = """
        import sys
        from keras_bert_impl.pretraining import read_documents, split_sentences
        print(len(list(read_documents(sys.argv[1]))), "tensorflow" in sys.modules)
    """
    assert _run(code, str(tmp_path / "corpus.txt")) == ["3", "False"]
