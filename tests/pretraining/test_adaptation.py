"""Adaptation of a model to text of a domain by further pre-training, then fine-tuning."""

import json
import signal

import numpy as np
import pytest
import safetensors.numpy
import yaml

from keras_bert_impl.checkpoints.interop import open_model, read_encoder_config
from keras_bert_impl.checkpoints.interop.sentence_transformers import read_sentence_settings
from keras_bert_impl.cli.main import main
from keras_bert_impl.pretraining import adapt, adaptation, read_manifest
from keras_bert_impl.pretraining.corpus.cutting import split_of
from keras_bert_impl.pretraining.corpus.readers import Document
from keras_bert_impl.pretraining.settings import AdaptationSettings
from keras_bert_impl.tasks import TextEmbedder
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import WORDS, encoder, finetune_command, run_script, tokenizer

SETTINGS = {"adapt_steps": 2, "adapt_batch_size": 4, "adapt_length": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a sentence embedder without a head, text, and the model adapted to the text."""
    folder = tmp_path_factory.mktemp("adaptation")
    TextEmbedder(encoder(), tokenizer(), pooling="max").save_pretrained(folder / "base")
    write_text(folder / "corpus.txt")
    adapt(folder / "base", folder / "corpus.txt", folder / "adapt", verbose=0, **SETTINGS)
    return folder


def write_text(path, seed=0):
    draw = np.random.default_rng(seed)
    sentences = [" ".join(draw.choice(WORDS, 6)) + "\n" for _ in range(40)]
    path.write_text("\n".join(sentences))  # one document per line
    return path


def tensors(directory):
    weights = safetensors.numpy.load_file(directory / "model.safetensors")
    return {name.removeprefix("bert."): tensor for name, tensor in weights.items()}


def test_the_encoder_learns_and_keeps_its_pooler_and_tokenizer(folder):
    before, after = tensors(folder / "base"), tensors(folder / "adapt" / "run" / "model")
    assert set(before) <= set(after)
    pooler = {name for name in before if name.startswith("pooler.")}
    same = {name for name in before if np.array_equal(before[name], after[name])}
    # A softmax is invariant to adding the same number to all its scores.
    key_bias = {name for name in before if name.endswith("key.bias")}
    assert pooler and pooler <= same <= pooler | key_bias
    assert any(name.startswith("cls.predictions") for name in after)
    paths = folder / "base", folder / "adapt" / "run" / "model"
    configs = [read_encoder_config(open_model(path)) for path in paths]
    assert configs[0] == configs[1]
    tokenizers = [Tokenizer.from_pretrained(path) for path in paths]
    assert tokenizers[0].fingerprint == tokenizers[1].fingerprint
    assert read_sentence_settings(paths[1]) == read_sentence_settings(paths[0])


def test_records_are_of_single_segments(folder):
    manifest = read_manifest(folder / "adapt" / "records")
    assert manifest["settings"]["objective"] == "mlm" and manifest["settings"]["length"] == 16
    assert manifest["documents"] == 40


def test_what_the_command_shows(folder, tmp_path, capsys):
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    command = ["adapt", "--model", folder / "base", folder / "corpus.txt", "--out", tmp_path / "a"]
    assert main([*map(str, command), *settings]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "newly init" not in line]
    records, training, parameters, report, change, verdict, written = lines
    assert records.startswith(f"{tmp_path}/a/records: ") and records.endswith(" rows held out")
    assert training == "training: 2 steps of 4 rows, on 1 CPU, float32"
    assert parameters.startswith("parameters: ") and report.startswith("report 1 of 1: loss ")
    scores = json.loads((tmp_path / "a" / "run" / "scores.json").read_text())
    before, after = scores["before/loss"], scores["loss"]
    assert change == f"loss on held-out rows: {before:.4f} before, {after:.4f} after"
    assert verdict.startswith("verdict: masked_lm_loss ")
    assert written == f"wrote the model to {tmp_path}/a/run/model"
    page = (tmp_path / "a" / "run" / "report.html").read_text()
    assert f">{before:.4f}<" in page and "Masked lm loss" not in page


def test_the_loss_before_is_of_the_model_on_the_same_masks(folder, tmp_path):
    """A learning rate that rounds to nothing leaves the loss as it was."""
    still = SETTINGS | {"adapt_learning_rate": 1e-30}
    adapt(folder / "base", folder / "corpus.txt", tmp_path / "a", verbose=0, **still)
    scores = json.loads((tmp_path / "a" / "run" / "scores.json").read_text())
    assert {name for name in scores if name.startswith("before/")} == {
        f"before/{name}" for name in ("loss", "masked_lm_loss", "masked_lm_accuracy")
    }
    for name in ("loss", "masked_lm_loss", "masked_lm_accuracy"):
        assert scores[f"before/{name}"] == scores[name]


def test_only_the_documents_that_the_steps_need_are_prepared(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(adaptation, "_HELD_OUT_ROWS", 4)
    texts = [f"{text} {number}" for number, text in enumerate(["good film and bad film"] * 990)]
    adapt(folder / "base", texts + texts[:10], tmp_path / "a", verbose=2, **SETTINGS)
    # 2 * 4 + 4 rows of 16 tokens of 6 characters, of documents of 25.9 characters
    assert "preparing 45 of 990 documents, enough for 2 steps of 4 rows" in capsys.readouterr().err
    manifest = read_manifest(tmp_path / "a" / "records")
    assert manifest["documents"] == 45
    rows = [manifest["splits"][split]["rows"] for split in ("train", "held_out")]
    assert rows[0] >= 8 and rows[1] >= 1
    documents = [Document("here", [text], False) for text in texts]
    numbers = [text.split()[-1] for text in adaptation._sample_texts(documents, 44.5 / 990)]
    gaps = np.diff([*map(int, numbers), 990])
    assert numbers[0] == "0" and set(gaps[:-1]) == {22, 23}  # 990 / 44.5 = 22.2


def test_too_few_documents_have_none_held_out(folder, tmp_path):
    texts = ["good film", "bad film"] * 30  # two documents, since the others are duplicates
    adapt(folder / "base", texts, tmp_path / "a", verbose=0, **SETTINGS)
    assert read_manifest(tmp_path / "a" / "records")["splits"]["held_out"]["rows"] == 0
    assert not (tmp_path / "a" / "run" / "scores.json").exists()


@pytest.mark.parametrize("count", [20, 49, 98, 103, 500])
def test_at_least_one_document_is_held_out(count):
    settings = AdaptationSettings(adapt_steps=10**6)
    used = adaptation._compute_needed(adaptation._Corpus("", count, 600_000 * count), settings, 128)
    assert used.documents == count and used.held_out <= 0.1
    assert any(split_of(number, used.held_out, seed=1) == "held_out" for number in range(count))


def test_finished_work_is_not_repeated(folder):
    files = [folder / "adapt" / name for name in ("records/manifest.json", "run/metrics.jsonl")]
    before = [(file.stat().st_mtime_ns, file.read_bytes()) for file in files]
    path = adapt(folder / "base", folder / "corpus.txt", folder / "adapt", verbose=0, **SETTINGS)
    assert path == folder / "adapt" / "run" / "model"
    assert [(file.stat().st_mtime_ns, file.read_bytes()) for file in files] == before


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"adapt_steps": 0}, "adapt_steps must be a positive integer"),
        ({"adapt_batch_size": 0}, "adapt_batch_size must be a positive integer"),
        ({"adapt_learning_rate": 0.0}, "adapt_learning_rate must be a positive number"),
        ({"adapt_length": 4}, "adapt_length must be an integer, at least 8"),
        ({"adapt_length": 64}, "adapt_length=64 exceeds the maximum of .*, 32 tokens"),
        ({"text": "nowhere.txt"}, "nowhere.txt does not exist"),
        ({"model": "nowhere"}, "No model is named 'nowhere'"),
        ({"dtype": "flot32"}, "dtype must be one of"),
        ({"seed": -1}, "seed must be an integer"),
        ({"strategy": "mirored"}, "unknown strategy 'mirored'"),
    ],
)
def test_rejected_input_leaves_no_files(folder, tmp_path, settings, message):
    arguments = {"model": folder / "base", "text": folder / "corpus.txt"} | SETTINGS | settings
    with pytest.raises(InputError, match=message):
        adapt(output_directory=tmp_path / "adapt", **arguments)
    assert not (tmp_path / "adapt").exists()


def test_accepts_corrected_text_after_rejected_text(folder, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InputError("no rows")

    with monkeypatch.context() as patched:
        patched.setattr(adaptation, "prepare", refuse)
        with pytest.raises(InputError, match="no rows"):
            adapt(folder / "base", write_text(tmp_path / "a.txt"), tmp_path / "out", **SETTINGS)
    with monkeypatch.context() as patched:
        patched.setattr(adaptation, "prepare", refuse)
        with pytest.raises(InputError, match="no rows"):  # rather than "other text"
            adapt(folder / "base", folder / "corpus.txt", tmp_path / "out", **SETTINGS)


def test_another_adaptation_in_the_same_directory(folder, tmp_path, monkeypatch):
    other_corpus = write_text(tmp_path / "other.txt", seed=1)
    text, out = folder / "corpus.txt", folder / "adapt"
    with pytest.raises(InputError, match="contains a model adapted with other text"):
        adapt(folder / "base", other_corpus, out, **SETTINGS)
    with pytest.raises(InputError, match="a different sequence length"):
        adapt(folder / "base", text, out, **SETTINGS | {"adapt_length": 8})
    with pytest.raises(InputError, match="other settings .total_steps was 2"):
        adapt(folder / "base", text, out, **SETTINGS | {"adapt_steps": 3})
    with pytest.raises(InputError, match="contains an adapted model. Choose another"):
        adapt(folder / "base", text, out, resume=False, **SETTINGS)
    (tmp_path / "half" / "records").mkdir(parents=True)
    with pytest.raises(InputError, match="contains an adapted model, but data.json is missing"):
        adapt(folder / "base", text, tmp_path / "half", **SETTINGS)
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    with pytest.raises(InputError, match="adaptation runs on one worker, not on 2"):
        adapt(folder / "base", text, out, **SETTINGS)


# === The command ===


def test_an_unknown_setting_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match="no argument 'adapt_step'; did you mean 'adapt_steps'"):
        adapt(tmp_path, ["a text"], tmp_path / "out", adapt_step=5)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def command(folder, tmp_path):
    return finetune_command(folder / "base", tmp_path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--adapt-steps=5"], "adapt_steps requires --adapt TEXT"),
        (["--adapt", "gone.txt"], "gone.txt does not exist"),
        (["--adapt", "{0}", "--crf"], "crf is not a setting of TextClassifier"),
        (["--adapt", "{0}", "--metric=f2"], "metric must be one of accuracy"),
        (["--adapt", "gone.txt", "--adapt-steps=many"], "adapt_steps must be a positive integer"),
        (
            ["--adapt", "{0}", "--seeds", "1,2", "--epochs=0"],
            "epochs must be a positive integer",
        ),
    ],
)
def test_command_rejects_invalid_arguments(folder, command, tmp_path, capsys, arguments, message):
    corpus = folder / "corpus.txt"
    assert main([*command, *(argument.format(corpus) for argument in arguments)]) == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_killed_adaptation_equals_the_uninterrupted_one(folder, command, tmp_path):
    def start(out, *kill):
        arguments = [*command[:-1], str(tmp_path / out), f"--adapt={folder / 'corpus.txt'}"]
        arguments += [
            "--adapt-steps=300",
            "--adapt-batch-size=4",
            "--adapt-length=16",
            "--epochs=1",
        ]
        return run_script("tests/pretraining/adapt_and_be_killed.py", *kill, *arguments)

    whole = start("whole")
    assert whole.returncode == 0, whole.stderr[-3000:]
    assert "newly initialized; train before use: " in whole.stderr and "masked_lm" in whole.stderr
    killed = tmp_path / "killed"
    assert start("killed", "kill-at=150").returncode == -signal.SIGKILL
    assert (killed / "adapt" / "records" / "manifest.json").exists()
    assert not (killed / "adapt" / "run" / "model").exists()
    resumed = start("killed")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    for path in ("adapt/run/model", "model"):
        first, second = (tensors(tmp_path / run / path) for run in ("whole", "killed"))
        assert set(first) == set(second)
        assert all((first[name] == second[name]).all() for name in first)
    recipe = yaml.safe_load((killed / "recipe.yaml").read_text())
    assert recipe["model"] == str(killed / "adapt" / "run" / "model")
    scores = [(tmp_path / run / "adapt/run/scores.json").read_text() for run in ("whole", "killed")]
    assert scores[0] == scores[1] and "before/loss" in scores[0]
    assert "before/loss" in (killed / "adapt/run/report.html").read_text()
    steps = [json.loads(line)["step"] for line in (killed / "adapt/run/metrics.jsonl").open()]
    assert steps == [100, 200, 300]


def test_a_causal_model_is_rejected_before_the_text_is_prepared(tmp_path):
    encoder(causal=True).save_pretrained(tmp_path / "base")
    tokenizer().save_pretrained(tmp_path / "base")
    with pytest.raises(InputError, match="adaptation needs an encoder .* both sides"):
        adapt(tmp_path / "base", write_text(tmp_path / "corpus.txt"), tmp_path / "out", **SETTINGS)
    assert not (tmp_path / "out").exists()
