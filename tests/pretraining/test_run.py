"""Pre-training runs: output files, resuming, and rejected settings."""

import dataclasses
import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import yaml

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.corpus.preparation import prepare
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.run import pretrain
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.pretraining.helpers import CONFIG, Stop, settings_of, weights


@pytest.fixture(scope="module")
def undisturbed(records_directory, shape, tmp_path_factory):
    """An uninterrupted run: its model and its directory."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    return pretrain(records_directory, run, **settings_of(shape)), run


class Terminated(Stop):
    """Receives SIGTERM within a report interval, like a preempted machine."""

    def on_train_batch_begin(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGTERM)


def test_what_a_run_writes(records_directory, tmp_path, settings, tokenizer):
    run = tmp_path / "run"
    model = pretrain(records_directory, run, **settings, evaluate_every=2)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4, 6]
    assert all(line["tokens_per_second"] > 0 for line in lines)
    assert lines[-1]["learning_rate"] == 0
    scores = json.loads((run / "scores.json").read_text())
    # The last evaluation of the run used the same weights and rows.
    assert scores["masked_lm_loss"] == pytest.approx(lines[-1]["val_masked_lm_loss"], rel=1e-6)
    assert scores["loss"] == pytest.approx(
        scores["masked_lm_loss"] + scores["next_sentence_loss"], rel=1e-3
    )
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    assert recipe["total_steps"] == 6 and set(recipe) == set(PretrainSettings().__dict__)
    loaded = Pretrainer.from_pretrained(run / "model", ["masked_lm", "next_sentence"])
    np.testing.assert_array_equal(weights(model), weights(loaded))
    assert Tokenizer.from_pretrained(run / "model").fingerprint == tokenizer.fingerprint


@pytest.mark.slow
def test_records_on_a_bucket_give_the_same_weights(undisturbed, bucket, tmp_path, settings):
    undisturbed, _ = undisturbed
    from_bucket = pretrain(bucket, tmp_path / "run", **settings)
    np.testing.assert_array_equal(weights(undisturbed), weights(from_bucket))
    with pytest.raises(InputError, match="gs:.* is not on this machine"):
        pretrain(bucket, "gs://bucket/run", **settings)
    assert not Path("gs:").exists()


def test_rejects_rows_that_do_not_match_the_manifest(records_directory, tmp_path, settings):
    copy = shutil.copytree(records_directory, tmp_path / "records")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["settings"]["length"] = 16
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="do not match manifest.json"):
        pretrain(copy, tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_interrupted_run_reaches_the_same_weights(
    undisturbed, records_directory, tmp_path, settings
):
    undisturbed, _ = undisturbed
    with pytest.raises(KeyboardInterrupt):
        pretrain(records_directory, tmp_path / "two", callbacks=[Stop(4)], **settings)
    lines = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 1  # the second interval is lost and runs again
    resumed = pretrain(records_directory, tmp_path / "two", **settings)
    np.testing.assert_array_equal(weights(undisturbed), weights(resumed))
    lines = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 6]
    again = pretrain(records_directory, tmp_path / "two", **settings)  # already finished
    np.testing.assert_array_equal(weights(undisturbed), weights(again))


@pytest.mark.slow  # tests/training/runs/test_preemption.py has a small model
def test_sigterm_saves_at_the_end_of_the_interval(
    undisturbed, records_directory, tmp_path, settings
):
    undisturbed, _ = undisturbed
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        pretrain(records_directory, tmp_path / "two", callbacks=[Terminated(3)], **settings)
    assert ended.value.code == 143 and signal.getsignal(signal.SIGTERM) is before
    lines = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4]
    assert (tmp_path / "two" / "checkpoints" / "ckpt-2.index").exists()
    resumed = pretrain(records_directory, tmp_path / "two", **settings)
    np.testing.assert_array_equal(weights(undisturbed), weights(resumed))


@pytest.mark.slow  # tests/training compares steps on replicas and workers
def test_four_replicas_reach_the_weights_of_one_device(records_directory, tmp_path, settings):
    # Epsilon as in the step tests: Adam amplifies rounding by at most rate / epsilon = 10.
    settings |= {"dropout": 0.0, "epsilon": 1e-3, "bias_correction": True}
    single = pretrain(records_directory, tmp_path / "one", **settings)
    with pytest.raises(KeyboardInterrupt):
        pretrain(records_directory, tmp_path / "four", "mirrored", callbacks=[Stop(4)], **settings)
    four = pretrain(records_directory, tmp_path / "four", "mirrored", **settings)
    assert four.distribute_strategy.num_replicas_in_sync == 4
    np.testing.assert_allclose(weights(four), weights(single), rtol=0, atol=1e-6)
    scores = [json.loads((tmp_path / run / "scores.json").read_text()) for run in ("one", "four")]
    assert scores[1] == pytest.approx(scores[0], rel=1e-6)


@pytest.mark.slow
def test_continues_from_a_model_directory(undisturbed, records_directory, tmp_path, settings):
    first, run = undisturbed
    settings |= {"model": str(run / "model"), "learning_rate": 1e-12}
    second = pretrain(records_directory, tmp_path / "two", **settings)
    np.testing.assert_allclose(weights(first), weights(second), atol=1e-8)


def test_rejects_invalid_arguments(undisturbed, records_directory, tmp_path, settings):
    _, run = undisturbed

    def refused(message, run="other", **changes):
        with pytest.raises(InputError, match=message):
            pretrain(records_directory, tmp_path / run, **settings | changes)

    refused(r"must be a multiple of 3 \(number of replicas times acc", accumulation_steps=3)
    refused("total_steps must be a multiple of steps_per_execution", steps_per_execution=4)
    refused("multiple of report_every", evaluate_every=3)
    refused("batch_size must be a positive integer", batch_size=0)
    refused("no labels for sentence_order, only for masked_lm, next", objectives=["sentence_order"])
    refused("mask_split must be three fractions", mask_split=[0.8, 0.1])
    refused("mask_unit must be one of", mask_unit="sentence")
    refused("No published model is named 'bert-base'", model="bert-base")
    short = tmp_path / "short.json"
    short.write_text(json.dumps(CONFIG | {"max_position_embeddings": 16}))
    refused("rows of 32 tokens, but the maximum of the model is 16", model=str(short))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    refused("broken.json, line 1, is not valid JSON", model=str(broken))
    refused("other settings .learning_rate was 0.01", run=run, learning_rate=1e-3)
    with pytest.raises(InputError, match="contains the records; name another folder"):
        pretrain(records_directory, records_directory, **settings)
    with pytest.raises(InputError, match="contains a run"):
        pretrain(records_directory, run, resume=False, **settings)
    folder = tmp_path / "other-model"
    vocabulary_of_another = Pretrainer.from_pretrained(run / "model", ["masked_lm"])
    vocabulary_of_another.save_pretrained(folder)
    text = (folder / "config.json").read_text().replace('"vocab_size": 208', '"vocab_size": 209')
    (folder / "config.json").write_text(text)
    refused("word_embeddings.weight must have shape .209, 16.", model=str(folder))
    assert not (tmp_path / "other").exists()  # the corrected command finds no folder


def test_the_model_may_be_a_configuration(records_directory, tmp_path, settings, tokenizer):
    fields = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
    # With a single segment, both texts of a pair are in it.
    fields |= {"max_length": 32, "num_segments": 1}
    config = EncoderConfig(vocabulary_size=tokenizer.vocabulary_size, **fields)
    settings |= {"total_steps": 1, "model": config}
    pretrainer = pretrain(records_directory, tmp_path / "run", **settings)
    assert pretrainer.encoder.config == config and np.isfinite(weights(pretrainer)).all()
    recipe = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert EncoderConfig(**recipe["model"]) == config
    pretrain(records_directory, tmp_path / "run", **settings | {"model": recipe["model"]})
    for model, message in (
        (
            dataclasses.replace(config, vocabulary_size=300),
            "the model has a vocabulary of 300 tokens",
        ),
        ({**recipe["model"], "hidden_size": 8}, "EncoderConfig has no field 'hidden_size'"),
        (fields, "missing .* 'vocabulary_size'"),
        (3, "model must be a dict or a string, got 3"),
    ):
        with pytest.raises(InputError, match=message):
            pretrain(records_directory, tmp_path / "other", **settings | {"model": model})
    assert not (tmp_path / "other").exists()


def test_rejects_examples_too_short_for_a_word(tmp_path, shape, settings, caplog):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "##ed", "a", "b"]
    corpus, records = tmp_path / "corpus.txt", tmp_path / "records"
    corpus.write_text("unwanted\n\nunwanteded\n")
    prepare(corpus, records, WordPieceTokenizer(pieces), length=8, objective="mlm", num_workers=1)
    with pytest.raises(InputError, match="nothing is masked in .*: its examples are too short"):
        pretrain(records, tmp_path / "run", **settings, mask_unit="word")
    assert not (tmp_path / "run").exists()
    assert not caplog.records


@pytest.mark.slow
def test_warns_of_word_masks_with_a_vocabulary_of_whole_words(
    records_directory, tmp_path, settings, caplog
):
    settings |= {"total_steps": 1, "report_every": 1, "mask_unit": "word"}
    pretrain(records_directory, tmp_path / "run", **settings)
    assert "no token of the vocabulary continues a word" in caplog.text


def test_run_resumes_only_with_its_own_records_and_settings(
    undisturbed, records_directory, corpus, tokenizer, tmp_path, settings
):
    _, run = undisturbed
    read = json.loads((run / "data.json").read_text())
    assert read["records"]["length"] == 32 and read["records"]["source"] == str(records_directory)
    moved = tmp_path / "moved"
    shutil.copytree(records_directory, moved)
    pretrain(moved, run, **settings)
    # Other records at the same path: another seed, and another length.
    for length, seed, difference in ((32, 4, "sha256 was"), (16, 3, "length was 32 and is 16")):
        shutil.rmtree(moved)
        prepare(corpus, moved, tokenizer, length=length, seed=seed, held_out=0.1, num_workers=1)
        with pytest.raises(InputError, match=f"on other records than {moved} .*{difference}"):
            pretrain(moved, run, **settings)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "recipe.yaml").unlink()
    with pytest.raises(InputError, match="recipe.yaml is missing. Restore recipe.yaml"):
        pretrain(records_directory, copy, **settings | {"learning_rate": 1e-3})
    # Another model shape at the same path.
    shape = tmp_path / "shape.json"
    shape.write_text(json.dumps(CONFIG | {"hidden_act": "relu"}))
    text = (run / "recipe.yaml").read_text()
    (copy / "recipe.yaml").write_text(text.replace(str(settings["model"]), str(shape)))
    with pytest.raises(InputError, match="on other model than .*shape.json .sha256 was"):
        pretrain(records_directory, copy, **settings | {"model": str(shape)})


def test_another_tokenizer(records_directory, corpus, tokenizer, tmp_path, settings):
    # The same number of tokens, with two of them swapped.
    pieces = list(tokenizer.vocabulary)
    pieces[-1], pieces[-2] = pieces[-2], pieces[-1]
    other_tokenizer = WordPieceTokenizer(pieces)
    prepare(corpus, tmp_path / "long", other_tokenizer, length=32, num_workers=1)
    long_records = {"long_records": str(tmp_path / "long"), "long_part": 0.4}
    model = tmp_path / "model"
    shape = EncoderConfig(
        vocabulary_size=other_tokenizer.vocabulary_size,
        hidden_dim=16,
        num_layers=1,
        num_heads=2,
        intermediate_dim=32,
        max_length=32,
    )
    Encoder(shape).save_pretrained(model)
    other_tokenizer.save_pretrained(model)
    for changes in (long_records, {"model": str(model)}):
        with pytest.raises(InputError, match="the records were prepared with another tokenizer"):
            pretrain(records_directory, tmp_path / "run", **settings | changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_records_that_are_damaged_while_the_run_reads_them(records_directory, tmp_path, settings):
    for change, message in (
        (lambda path: path.unlink(), "train-.*.gz is missing"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "train-.*.gz is damaged"),
    ):
        work = tmp_path / message[-3:]
        copy = shutil.copytree(records_directory, work / "records")

        class Damage(Stop):
            def on_train_batch_begin(self, batch, logs=None):
                self.left -= 1
                if self.left == 0:
                    for path in copy.glob("train-*.gz"):
                        change(path)

        # Longer than what was prefetched.
        keywords = {"total_steps": 300, "callbacks": [Damage(3)]}
        with pytest.raises(InputError, match=message):
            pretrain(copy, work / "run", **settings | keywords)
        shutil.rmtree(copy)
        shutil.copytree(records_directory, copy)
        del keywords["callbacks"]
        resumed = pretrain(copy, work / "run", **settings | keywords)
        whole = pretrain(records_directory, work / "whole", **settings | keywords)
        np.testing.assert_array_equal(weights(whole), weights(resumed))


@pytest.mark.parametrize(
    ("objectives", "changes"),
    [
        pytest.param(
            ["masked_lm", "span_boundary"],
            {"mask_unit": "span", "mask_split": [0.8, 0.1, 0.1]},
            marks=pytest.mark.slow,
        ),
        (["replaced_token"], {"mask_split": [0.85, 0.0, 0.15]}),
        pytest.param(["left_to_right"], {}, marks=pytest.mark.slow),
    ],
)
def test_other_objectives(records_directory, tmp_path, settings, objectives, changes):
    electra = CONFIG | {"model_type": "electra", "embedding_size": 8}
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps(electra if objectives == ["replaced_token"] else CONFIG))
    settings |= {"model": str(shape), "total_steps": 2, "objectives": objectives, **changes}
    run = tmp_path / "run"
    model = pretrain(records_directory, run, **settings)
    scores = json.loads((run / "scores.json").read_text())
    names = objectives if objectives != ["replaced_token"] else ["masked_lm", "replaced_token"]
    assert set(scores) == {"loss"} | {f"{n}_{kind}" for n in names for kind in ("loss", "accuracy")}
    factors = {"replaced_token": 50.0}
    expected = sum(factors.get(name, 1.0) * scores[f"{name}_loss"] for name in names)
    # Means of batch means differ slightly from means over all positions.
    assert scores["loss"] == pytest.approx(expected, rel=0.02)
    loaded = Pretrainer.from_pretrained(run / "model", objectives)
    np.testing.assert_array_equal(weights(model), weights(loaded))


def test_a_checkpoint_copied_to_a_higher_number_does_not_prolong_the_run(
    tmp_path, records_directory, shape
):
    settings = settings_of(shape)
    with pytest.raises(KeyboardInterrupt):
        pretrain(records_directory, tmp_path / "run", callbacks=[Stop(5)], **settings)
    checkpoints = tmp_path / "run" / "checkpoints"
    for file in checkpoints.glob("ckpt-1.*"):
        shutil.copy(file, checkpoints / file.name.replace("ckpt-1.", "ckpt-99."))
    (checkpoints / "checkpoint").write_bytes(b"\xff\xfe")
    pretrain(records_directory, tmp_path / "run", **settings)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == sorted(set(steps)) and steps[-1] == settings["total_steps"]
    assert (checkpoints / "ckpt-99.index").exists()
