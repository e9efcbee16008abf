"""The example `ablations`."""

import dataclasses
import json
import random

import numpy as np
import pytest
import scipy.stats
import yaml

from examples.experiments import ablations
from examples.experiments.ablations import QUESTIONS, Variant, ablate, main
from keras_bert_impl import CausalLM, EncoderConfig, InputError, TokenClassifier
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.data.tags.examples import TaggedExamples
from keras_bert_impl.pretraining.building import model_config
from tests.tasks.helpers import WORDS, examples, tokenizer

SMALL = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32}
RECIPE = {
    "model": dataclasses.replace(model_config("cpu_small.json"), **SMALL).to_dict(),
    "records_length": 16,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "objectives": ["masked_lm"],
}
TUNED = {"tuning=head": 2.0, "left_to_right": 3.0, "next_sentence": 5.0}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randint(2, 7))) for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join("\n".join(sentences[n : n + 4]) for n in range(0, 400, 4)))
    return path


@pytest.fixture
def trained(monkeypatch):
    """Replaces training by runs whose score is the seed, plus what `TUNED` adds for a name.

    Returns the list of (name of the run, settings).
    """
    calls = []

    def train(run, settings):
        (run / "model").mkdir(parents=True)
        score = settings["seed"] + sum(gain for name, gain in TUNED.items() if name in run.name)
        (run / "scores.json").write_text(json.dumps({"accuracy": score, "f1": 0.0}))
        calls.append((f"{run.parent.name}/{run.name}", settings))

    monkeypatch.setattr(ablations, "pretrain", lambda records, run, **options: train(run, options))
    monkeypatch.setattr(
        ablations, "finetune", lambda model, t, d, run, **options: train(run, options)
    )
    monkeypatch.setattr(ablations, "describe_run", lambda run: None)
    monkeypatch.setattr(ablations, "is_finished", lambda records, run, settings: run.exists())
    return calls


def answers(corpus, directory, questions, **options):
    options = {"recipe": RECIPE, "tokenizer": tokenizer(), "budget": 8} | options
    train, dev = Examples(*examples(24)), Examples(*examples(20, seed=1))
    return ablate(corpus, train, dev, directory, questions, **options)


def test_variants_are_compared_with_the_first_one_seed_by_seed(trained, corpus, tmp_path):
    messages = []
    scores = answers(corpus, tmp_path / "out", ["nsp"], seeds=[4, 5, 7], say=messages.append)
    assert scores == json.loads((tmp_path / "out/scores.json").read_text())
    assert messages[:3] == [
        "seed 4, nsp: masked LM on pairs",
        "seed 4, nsp: masked LM and next sentence",
        "seed 5, nsp: masked LM on pairs",
    ]
    assert scores["metric"] == "accuracy"
    first, second = scores["questions"]["nsp"]
    assert [*first["runs"].values()] == [4.0, 5.0, 7.0]
    low, high = scipy.stats.t.interval(0.95, 2, *_mean_and_error([4.0, 5.0, 7.0]))
    expected = {"value": 16 / 3, "low": low, "high": high}
    assert first["score"] == pytest.approx(expected, rel=1e-5)
    assert second["difference"] == pytest.approx({"value": 5.0, "low": 5.0, "high": 5.0})
    html = (tmp_path / "out/report.html").read_text()
    assert "masked LM and next sentence" in html and "+5.0000" in html


def _mean_and_error(scores):
    return np.mean(scores), np.std(scores, ddof=1) / len(scores) ** 0.5


def test_an_interrupted_call_has_compared_the_finished_seeds(trained, corpus, tmp_path):
    def interrupt(line):
        if line.startswith("seed 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answers(corpus, tmp_path, ["nsp"], seeds=[1, 2], say=interrupt)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert [row["score"]["value"] for row in scores["questions"]["nsp"]] == [1.0, 6.0]


def test_all_questions_share_equal_runs(trained, corpus, tmp_path):
    questions = answers(corpus, tmp_path, list(QUESTIONS), seeds=[1])["questions"]
    variants = {(q, row["name"]): row for q, rows in questions.items() for row in rows}
    assert len(variants) == sum(map(len, QUESTIONS.values())) == 22
    paths = {path for row in variants.values() for path in row["runs"]}
    tuned, pretrained = (
        [name for name, _ in trained if name.startswith(kind)]
        for kind in ("finetuning", "pretraining")
    )
    assert len(tuned) == len(set(tuned)) == len(paths)
    assert len(pretrained) == len(set(pretrained)) == 13
    # five questions start from the recipe, and three have random weights
    assert sum("finetuning/seed=1" in row["runs"] for row in variants.values()) == 5
    assert all(row["score"]["low"] is None for row in variants.values())


def test_variants_change_the_settings_that_they_name(trained, corpus, tmp_path):
    answers(corpus, tmp_path, list(QUESTIONS), seeds=[3], epochs=2, dtype="mixed_bfloat16")
    settings = dict(trained)
    recipe = settings["pretraining/seed=3"]
    assert recipe["total_steps"] == recipe["report_every"] == 8
    assert recipe["model"]["vocabulary_size"] == tokenizer().vocabulary_size
    sizes = {name: recipe["model"][name] for name in SMALL}
    assert sizes == SMALL
    assert recipe["dtype"] == settings["finetuning/seed=3"]["dtype"] == "mixed_bfloat16"

    def changed(name):
        run = settings[f"pretraining/{name},seed=3"]
        return {key: run[key] for key in run if key in recipe and run[key] != recipe[key]}

    assert changed("mask_split=1.0+0.0+0.0") == {"mask_split": (1.0, 0.0, 0.0)}
    assert changed("objectives=left_to_right") == {"objectives": ("left_to_right",)}
    assert changed("steps=0.25") == {"total_steps": 2, "report_every": 2}
    pairs = changed("records=mlm_nsp,objectives=masked_lm+next_sentence")
    assert pairs["records_objective"] == "mlm_nsp"
    half = settings["pretraining/layers=0.5,width=0.5,seed=3"]["model"]
    assert {name: half[name] for name in SMALL} == {name: size // 2 for name, size in SMALL.items()}
    tuned = settings["finetuning/seed=3"]
    assert (tuned["epochs"], tuned["learning_rate"]) == (2, 5e-4)
    head = settings["finetuning/tuning=head,learning_rate=None,seed=3"]
    assert head == tuned | {"tuning": "head", "learning_rate": None}


def test_own_questions_and_a_resumed_call(trained, corpus, tmp_path):
    questions = {"rate": [Variant("15%"), Variant("30%", {"mask_rate": 0.3})]}
    first = answers(corpus, tmp_path / "out", questions, seeds=[1])
    count = len(trained)
    assert count == 4 and dict(trained)["pretraining/mask_rate=0.3,seed=1"]["mask_rate"] == 0.3
    del trained[:]
    for path in (tmp_path / "out/finetuning").iterdir():
        (path / "model").rmdir()
        (path / "scores.json").unlink()
        path.rmdir()
    assert answers(corpus, tmp_path / "out", questions, seeds=[1]) == first
    assert [name.split("/")[0] for name, _ in trained] == ["finetuning"] * 2


@pytest.mark.parametrize(
    "options, message",
    [
        ({"seeds": []}, "seeds must be different numbers"),
        ({"seeds": [1, 1]}, "seeds must be different numbers"),
        ({"questions": ["sizes"]}, "questions are objective, nsp, "),
        ({"recipe": "cpu_smal"}, "recipe must be one of"),
        ({"budget": 0}, "budget must be at least 1, got 0"),
        ({"model": "x"}, "leave out model"),
        ({"epochs": 0}, "epochs must be"),
        ({"questions": {"a": [Variant("a", {"mask_rate": 2})]}}, "mask_rate must be"),
        ({"questions": {"a": [Variant("a", width=0.1)]}}, "hidden_dim must be|must be a positive"),
    ],
)
def test_invalid_settings_leave_no_files(options, message, corpus, tmp_path):
    options = {"questions": ["nsp"], "seeds": [1]} | options
    with pytest.raises(InputError, match=message):
        answers(corpus, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_causal_modernbert_tags_words(corpus, tmp_path):
    texts, labels = [["good", "film"], ["bad", "plot"]], [["A", "B"], ["A", "B"]]
    data, settings = (
        TaggedExamples(texts, labels, ["A", "B"]),
        {"recipe": RECIPE, "tokenizer": tokenizer(), "budget": 1},
    )
    scores = ablate(corpus, data, data, tmp_path, seeds=[1], epochs=1, **settings)
    rows = {row["name"]: row for row in scores["questions"]["objective"]}
    (run,) = rows["left to right"]["runs"]
    tagger = TokenClassifier.from_pretrained(tmp_path / run / "model")
    assert tagger.config.causal
    accuracy = np.mean(np.asarray(tagger.tag(texts)) == labels)
    assert rows["left to right"]["score"]["value"] == accuracy


def test_variants_without_a_head_leave_no_files(corpus, tmp_path):
    recipe = RECIPE | {"model": EncoderConfig(1000, 16, 2, 2, 32).to_dict()}
    message = "variant 'left to right': the head classifies the first token"
    with pytest.raises(InputError, match=message):
        answers(corpus, tmp_path / "out", ["objective"], recipe=recipe)
    assert not (tmp_path / "out").exists()


def test_the_command_pretrains_and_finetunes(corpus, tmp_path, capsys):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE))
    rows = [f"{label},{text}" for text, label in zip(*examples(24), strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(["label,text", *rows]))
    command = [f"--corpus={corpus}", f"--pretraining={recipe}", "--budget=2"]
    command += [f"--train={tmp_path}/all.csv", f"--dev={tmp_path}/all.csv", "--text=text"]
    command += ["--label=label", "--epochs=1", "--seeds=1", f"--out={tmp_path}/out"]
    main([*command, "--questions=objective", "--vocabulary-size=300"])
    *_, first, second, third, fourth, _ = capsys.readouterr().out.splitlines()
    assert first.split() == ["objective", "accuracy", "difference"]
    assert [line.rsplit(maxsplit=2)[0] for line in (second, third, fourth)] == [
        variant.name for variant in QUESTIONS["objective"]
    ]
    causal = tmp_path / "out/pretraining/objectives=left_to_right,seed=1/model"
    assert CausalLM.from_pretrained(causal).encoder.config.causal
    # another corpus has other records
    with corpus.open() as text:
        (tmp_path / "other.txt").write_text(text.read()[:4000])
    for options, message in [
        ([f"--corpus={tmp_path}/other.txt"], "records of another tokenizer"),
        (["--questions=size,nps"], "questions are objective"),
        (["--task=glue"], "--task glue: choose tagging"),
        (["--pretraining=cpu_smal"], "recipe must be one of"),
        (["--pretraining=gone.yaml"], "gone.yaml"),
        (["--epochs=[1"], "expected ',' or ']'"),
    ]:
        with pytest.raises(SystemExit, match="2"):
            main([*command, "--vocabulary-size=300", *options])
        assert message in capsys.readouterr().err
