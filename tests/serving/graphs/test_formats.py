"""The folder of an export: what it must not replace, and the tokenizer that clients read."""

import json

import pytest
import tokenizers

from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.cli.main import main
from keras_bert_impl.serving.graphs.formats import (
    NETWORK_ENTRIES,
    SAVED_MODEL_ENTRIES,
    check_target,
    save_tokenizer,
)
from keras_bert_impl.serving.server.versions import Folder
from keras_bert_impl.tasks import QuestionAnswerer
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers

LONG = "good bad film " * 30


@pytest.mark.parametrize(
    ("there", "entries", "named"),
    [
        (["config.json", "notes.txt"], NETWORK_ENTRIES, "'config.json'"),
        (["variables", "assets"], SAVED_MODEL_ENTRIES, "'assets', 'variables'"),
        (["config.json", "model.safetensors", "model.onnx"], NETWORK_ENTRIES, "'config.json'"),
    ],
)
def test_refuses_what_no_export_has_written(there, entries, named, tmp_path):
    for name in there:
        (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=f"already contains {named}, which no export has written"):
        check_target(tmp_path, entries)


def test_replaces_an_export_and_fills_other_folders(tmp_path):
    check_target(tmp_path / "new", NETWORK_ENTRIES)
    (tmp_path / "notes.txt").write_text("mine")
    check_target(tmp_path, NETWORK_ENTRIES)
    for name in ("model.onnx", "config.json"):
        (tmp_path / name).write_text("of an export")
    check_target(tmp_path, NETWORK_ENTRIES)
    with pytest.raises(InputError, match="the name of the export folder is empty"):
        check_target("", NETWORK_ENTRIES)


def test_an_export_keeps_a_model_and_a_user_s_files(tmp_path):
    model = helpers.classifier(max_length=16)
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "variables").mkdir()
    for format in ("onnx", "tf_saved_model"):
        with pytest.raises(InputError, match="no export has written. Choose a new folder"):
            model.export(tmp_path / "model", format=format)
    assert (tmp_path / "model" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"), [({}, 16), ({"long_texts": "mean"}, None), (None, None)]
)
def test_clients_truncate_where_the_model_does(arguments, expected, tmp_path):
    if arguments is None:
        model = QuestionAnswerer(
            helpers.encoder(),
            helpers.tokenizer(),
            max_length=16,
            max_question_length=8,
            doc_stride=4,
        )
    else:
        model = helpers.classifier(max_length=16, **arguments)
    save_tokenizer(model.tokenizer, model, tmp_path)
    client = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = client.encode(LONG).ids
    limit = json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"]
    assert limit == 16 and len(ids) == (expected or len(LONG.split()) + 2)
    if expected:
        assert ids == model.tokenizer([LONG], length=16)["token_ids"][0].numpy().tolist()
        pair = client.encode("good film", LONG).ids
        assert pair == model.tokenizer([("good film", LONG)], 16)["token_ids"][0].numpy().tolist()
    again = type(model.tokenizer).from_pretrained(tmp_path)
    assert again.get_config() == model.tokenizer.get_config()


@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_an_exported_encoder_has_its_tokenizer(has_tokenizer, tmp_path):
    model = helpers.classifier(max_length=16)
    (model if has_tokenizer else model.encoder).save_pretrained(tmp_path / "model")
    out = tmp_path / "out"
    command = ["export", "--model", str(tmp_path / "model"), "--as", "encoder", "--out", str(out)]
    assert main([*command, "--format", "onnx"]) == 0
    assert (out / "tokenizer.json").exists() == has_tokenizer
    assert ("tokenizer in this folder" in (out / "README.md").read_text()) == has_tokenizer


def test_a_name_of_another_format_is_no_saved_model(tmp_path):
    with pytest.raises(InputError, match=r"Write export\('.*m.onnx', format='onnx'\)"):
        helpers.classifier().export(str(tmp_path / "m.onnx"))
    assert not (tmp_path / "m.onnx").exists()


def test_hints_for_folders_that_hold_something_else(tmp_path):
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    (tmp_path / "models" / "reviews" / "1").mkdir(parents=True)
    (tmp_path / "models" / "reviews" / "1" / "saved_model.pb").write_bytes(b"")
    for folder, hint in (("run", "keras-bert export --model .*run --out"), ("models", "reviews")):
        with pytest.raises(InputError, match=hint):
            Folder(tmp_path / folder)
    for folder, hint in (("run", "run.model has no weights"), ("models/reviews", "is an export")):
        with pytest.raises(InputError, match=hint):
            open_model(tmp_path / folder)


@pytest.mark.parametrize("name", ["model.safetensors", "adapter_model.safetensors"])
def test_a_models_directory_takes_no_saved_model(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match="is a model directory. Choose a new folder"):
        check_target(tmp_path, SAVED_MODEL_ENTRIES)


@pytest.mark.parametrize(
    ("format", "settings"),
    [
        ("onnx", {"nope": 1}),
        ("litert", {"fused": False}),
        ("tf_saved_model", {"precision": "fp16"}),
    ],
)
def test_rejects_settings_of_other_formats(tmp_path, format, settings):
    with pytest.raises(
        InputError, match=f"format='{format}' has no settings '{list(settings)[0]}'"
    ):
        helpers.classifier().export(tmp_path / "served", format=format, **settings)
