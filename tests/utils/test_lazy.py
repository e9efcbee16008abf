"""What is loaded late or not at all."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

TEXT = "One sentence. And two.\n\nA second document. It goes on.\n\nA third one. It ends here.\n\n"


def _run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    process = subprocess.run(command, capture_output=True, text=True)
    assert not process.returncode, process.stderr[-800:]
    return process.stdout.split()


def test_the_import_changes_nothing_in_the_process():
    code = """
        import os, sys
        before = dict(os.environ), list(sys.meta_path), os.fstat(2)
        import keras_bert_impl
        print(before == (dict(os.environ), sys.meta_path, os.fstat(2)))
        print({"keras", "tensorflow"} & set(sys.modules))
        import keras
        registry = type(keras.saving.get_custom_objects())
        from keras_bert_impl import TextClassifier
        print(registry is type(keras.saving.get_custom_objects()) is dict)
        print(before[0] == dict(os.environ), None in sys.modules.values())
    """
    assert _run(code) == ["True", "set()", "True", "True", "False"]


@pytest.mark.skipif(bool(importlib.util.find_spec("tf_keras")), reason="Keras 2 is installed")
def test_a_variable_that_asks_for_keras_2_is_named():
    pytest.importorskip("tensorflow_text")  # nothing else imports Keras by TensorFlow
    code = "from keras_bert_impl import TextClassifier"
    environment = os.environ | {"TF_USE_LEGACY_KERAS": "1"}
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "Unset TF_USE_LEGACY_KERAS" in process.stderr.splitlines()[-1]


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
