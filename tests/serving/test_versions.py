"""Files next to a SavedModel: versions, warm-up, tokenizer, labels, the model card."""

import concurrent.futures
import json
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
import yaml
from tensorflow.core.framework import tensor_pb2

from keras_bert_impl.serving import export_version
from keras_bert_impl.serving.saved_model import BATCH_SIZES, prediction_log
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from tests.serving.fuzz import load_tool
from tests.tasks.helpers import classifier, run_python

FEATURES = {"token_ids", "segment_ids", "padding_mask"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(`Path` of a model folder with one version that takes ids, the model)."""
    folder = tmp_path_factory.mktemp("models")
    run = folder / "run"
    run.mkdir()
    (run / "scores.json").write_text(json.dumps({"accuracy": 0.875}))
    (run / "recipe.yaml").write_text(yaml.safe_dump({"epochs": 3}))
    model = classifier()
    path = export_version(model.signatures(), folder / "reviews", ids_only=True, run=run)
    assert path == folder / "reviews" / "1"
    return folder / "reviews", model


def requests_of(path):
    """Reads warm-up requests: list of (model, signature, dict of arrays)."""
    fields = load_tool("wire").read_fields
    requests = []
    for record in tf.data.TFRecordDataset(str(path)):
        request = fields(fields(fields(record.numpy())[6][0])[1][0])
        spec = fields(request[1][0])
        inputs = {}
        for entry in map(fields, request[2]):
            tensor = tensor_pb2.TensorProto.FromString(entry[2][0])
            inputs[entry[1][0].decode()] = tf.make_ndarray(tensor)
        requests.append((spec[1][0].decode(), spec[3][0].decode(), inputs))
    return requests


def test_warm_up_asks_each_signature_in_each_size(exported):
    folder, model = exported
    extra = folder / "1" / "assets.extra"
    requests = requests_of(extra / "tf_serving_warmup_requests")
    signatures = tf.saved_model.load(str(folder / "1")).signatures
    assert {name for name, _, _ in requests} == {"reviews"}
    requested = {(name, len(next(iter(inputs.values())))) for _, name, inputs in requests}
    assert requested == {(name, size) for name in signatures for size in BATCH_SIZES}
    for _, name, inputs in requests:
        answer = signatures[name](**{key: tf.constant(v) for key, v in inputs.items()})
        assert answer["scores"].shape[1] == model.num_classes
    assert set(requests[0][2]) == FEATURES


def test_long_requests_have_multi_byte_lengths():
    text = "long " * 10_000
    log = prediction_log("model", "serving_default", {"text": [text]})
    fields = load_tool("wire").read_fields
    request = fields(fields(fields(log)[6][0])[1][0])
    tensor = tensor_pb2.TensorProto.FromString(fields(request[2][0])[2][0])
    assert tf.make_ndarray(tensor).tolist() == [text.encode()]


def test_writes_files_next_to_the_model(exported):
    folder, model = exported
    extra = folder / "1" / "assets.extra"
    assert json.loads((extra / "labels.json").read_text()) == list(model.labels)
    tokenizer = Tokenizer.from_pretrained(extra / "tokenizer")
    assert tokenizer.fingerprint == model.tokenizer.fingerprint
    card = (folder / "1" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: keras\n") and "\n# reviews\n" in card
    assert "| accuracy | 0.875 |" in card
    assert "epochs: 3" in card and "`token_ids` int32 [?, ?]" in card
    config = (folder / "models.config").read_text()
    assert 'name: "reviews"' in config and 'base_path: "/models/reviews"' in config
    assert "max_batch_size { value: 32 }" in (folder / "batching_parameters.txt").read_text()
    assert "prometheus_config { enable: true" in (folder / "monitoring.config").read_text()


@pytest.mark.slow
def test_ids_need_no_operation_of_tf_text(exported):
    """Loads where only TensorFlow's own operations are registered."""
    code = """
import json, sys
sys.modules["tensorflow_text"] = None
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures["hub_ids"]
names = "input_word_ids", "input_mask", "input_type_ids"
ids = dict(zip(names, ([[2, 5, 6, 3]], [[1] * 4], [[0] * 4])))
answer = served(**{name: tf.constant(value) for name, value in ids.items()})
print(json.dumps(answer["scores"].numpy().tolist()))
"""
    folder, model = exported
    features = {"token_ids": [[2, 5, 6, 3]], "padding_mask": [[1] * 4], "segment_ids": [[0] * 4]}
    features = {name: np.array(value, "int32") for name, value in features.items()}
    expected = model.predict(features, verbose=0)
    np.testing.assert_allclose(run_python(code, folder / "1"), expected, atol=1e-5)


def test_the_next_version_has_the_next_number(exported, monkeypatch):
    folder, model = exported
    (folder / "9").mkdir()
    (folder / "notes").mkdir()
    written = []
    monkeypatch.setattr(
        "keras_bert_impl.serving.saved_model.export_saved_model",
        lambda signatures, path, *args, **kwargs: written.append((path.name, kwargs["name"])),
    )
    export_version(model.signatures(), folder)
    for name in ("notes/saved_model.pb", f"{2**63 - 2}/saved_model.pb"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    export_version(model.signatures(), folder)
    assert written == [("10", "reviews"), (str(2**63 - 1), "reviews")]
    (folder / str(2**63 - 2)).rename(folder / str(2**63 - 1))
    with pytest.raises(InputError, match="has the largest version"):
        export_version(model.signatures(), folder)
    (folder / str(2**63 - 1)).rename(folder / str(2**63))
    with pytest.raises(InputError, match=f"at most {2**63 - 1}. Rename the folder"):
        export_version(model.signatures(), folder)
    (folder / str(2**63) / "saved_model.pb").unlink()


def test_a_model_is_not_exported_beside_its_versions(exported):
    folder, model = exported
    for file_format in ("tf_saved_model", "litert"):
        with pytest.raises(
            InputError, match=r"contains versions of a model. Pass .*reviews/\d+, or"
        ):
            model.export(folder, format=file_format)


def test_refuses_to_export_beside_another_process(exported):
    folder, model = exported
    code = """
import sys
from keras_bert_impl.utils.io.files import claim
lock = claim(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(folder / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(InputError, match="another process is exporting to"):
            export_version(model.signatures(), folder)
        process.communicate(b"")


def test_threads_export_one_after_the_other(exported, monkeypatch):
    folder, model = exported
    monkeypatch.setattr(
        "keras_bert_impl.serving.saved_model.export_saved_model",
        lambda signatures, path, *args, **kwargs: (time.sleep(0.2), path.mkdir()),
    )
    with concurrent.futures.ThreadPoolExecutor() as pool:
        paths = [*pool.map(export_version, 2 * [model.signatures()], 2 * [folder])]
    first, second = (int(path.name) for path in paths)
    assert abs(first - second) == 1


@pytest.mark.parametrize(
    "name, message", [("1", "is a SavedModel"), ("a b", "may contain only letters, digits")]
)
def test_rejects_invalid_version_folders(exported, name, message):
    folder, model = exported
    with pytest.raises(InputError, match=message):
        export_version(model.signatures(), folder / name)
