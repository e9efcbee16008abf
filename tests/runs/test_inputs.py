"""What identifies the models of a run: everything that its result depends on."""

import json

import pytest

from keras_bert_impl.runs.inputs import made_of
from keras_bert_impl.tasks import Examples, FinetuneSettings
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import embedder, examples, save_base

DATA = Examples(*examples(count=8))


def of_model(directory, name="model"):
    settings = {"model": str(directory), "teacher": str(directory)}
    return made_of(FinetuneSettings(**settings), DATA, DATA)[name]


def exchange_words(directory):
    path = directory / "vocab.txt"
    lines = path.read_text().split("\n")
    lines[-3], lines[-4] = lines[-4], lines[-3]
    path.write_text("\n".join(lines))
    (directory / "tokenizer.json").unlink()


def set_case(directory):
    for name in "tokenizer.json", "tokenizer_config.json":
        path = directory / name
        text = path.read_text()
        for old in ('"do_lower_case": true', '"lowercase": true'):
            text = text.replace(old, old.replace("true", "false"))
        path.write_text(text)


@pytest.mark.parametrize("name", ["model", "teacher"])
@pytest.mark.parametrize("change", [exchange_words, set_case])
def test_another_tokenizer_is_another_model(tmp_path, name, change):
    base = save_base(tmp_path / "base")
    before = of_model(base, name)
    change(base)
    after = of_model(base, name)
    assert after["sha256"] == before["sha256"]
    assert after["tokenizer"] != before["tokenizer"]


def test_a_run_is_not_resumed_with_another_tokenizer(tmp_path):
    base = save_base(tmp_path / "base")
    settings = FinetuneSettings(model=str(base))
    run = RunDirectory(tmp_path / "run", settings, made_of=made_of(settings, DATA, DATA))
    run.metrics.write_text("{}\n")
    exchange_words(base)
    with pytest.raises(InputError, match=r"on other model than .*base \(tokenizer was"):
        RunDirectory(tmp_path / "run", settings, made_of=made_of(settings, DATA, DATA))


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("1_Pooling/config.json", "pooling_mode_mean_tokens", None),
        ("config_sentence_transformers.json", "prompts", {"query": "other "}),
    ],
)
def test_other_sentence_settings_are_another_model(tmp_path, file, key, value):
    embedder(prompts={"query": "what "}).save_pretrained(tmp_path)
    before = of_model(tmp_path)
    path = tmp_path / file
    content = json.loads(path.read_text())
    if value is None:
        content |= {key: False, "pooling_mode_max_tokens": True}
    else:
        content[key] = value
    path.write_text(json.dumps(content))
    after = of_model(tmp_path)
    assert after["sentences"] != before["sentences"]
    assert after["sha256"] == before["sha256"]
