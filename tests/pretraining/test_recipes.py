"""Recipes: their files, training steps, and required records."""

import json
import math
import re
from pathlib import Path

import pytest

from keras_bert_impl.cli import main as cli
from keras_bert_impl.pretraining.recipes import recipe_text, recipes
from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, PretrainSettings
from keras_bert_impl.tokenizers import (
    ByteLevelBPETokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
)
from tests.training.helpers import ROOT, output_of, start_python

NAMES = sorted(recipes())
QUICK = "cpu_small"


# === Files ===


@pytest.mark.parametrize("name", NAMES)
def test_recipes_state_their_source_and_prepare_command(name):
    text, recipe = recipe_text(name), recipes()[name]
    assert re.search(r"arXiv:\d{4}\.\d{5}", text)
    lines = [line for line in text.splitlines() if line.startswith("#   keras-bert")]
    for length in (recipe["records_length"], recipe.get("long_records_length")):
        options = f"--length {length} --objective {recipe['records_objective']}"
        assert length is None or any(f"prepare {options}"[8:] in line for line in lines)
    assert f"--recipe {name} " in lines[-1]
    paths = {}
    if "--long-records " in lines[-1]:
        paths["long_records"] = "records-512"
    if "--teacher " in lines[-1]:
        paths["teacher"] = "TEACHER"
    PretrainSettings(**recipe | paths)  # checks which settings go together
    assert recipe["records_objective"] in RECORDS_OBJECTIVES
    kinds = (ByteLevelBPETokenizer, SentencePieceTokenizer, WordPieceTokenizer)
    assert recipe["records_tokenizer"] in [kind.kind for kind in kinds]


def test_all_recipes_exist_and_are_documented():
    assert set(NAMES) == {
        "albert_base",
        "bert_base",
        "bert_large",
        "budget_24h",
        "cpu_small",
        "distilbert",
        "domain_adapt",
        "electra_base",
        "electra_small",
        "roberta_base",
        "spanbert_base",
        "tinybert_4l",
    }
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert all(f"\n| `{name}` |" in text for name in NAMES)


# === The command ===


def test_the_list_and_a_file(capsys, tmp_path):
    assert cli.main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", *NAMES]
    assert cli.main(["recipes", "electra_small"]) == 0
    assert capsys.readouterr().out == recipe_text("electra_small")
    assert cli.main(["recipes", "electra_small", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == recipes()["electra_small"]
    assert cli.main(["recipes", "electra"]) == 2
    assert "there is no recipe 'electra'; did you mean 'electra_base'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [QUICK],
            "records_length is 32, but the settings require 128. Run prepare with --length 128",
        ),
        (
            [QUICK, "--records-length=32"],
            "records_objective is mlm_nsp, but the settings require mlm",
        ),
        (
            ["roberta_base", "--records-length=null", "--records-objective=null"],
            "records_tokenizer is wordpiece, but the settings require byte-level BPE. Run prepare with "
            "a byte-level BPE tokenizer, or set records_tokenizer=wordpiece.",
        ),
        (["bert_base"], "need rows of 512 tokens. Prepare records with --length 512"),
        (["distilbert"], "distillation needs a teacher model; set teacher=DIR"),
        (
            [
                "domain_adapt",
                "--records-length=null",
                "--records-objective=null",
                "--records-tokenizer=null",
            ],
            "No model is named 'MODEL'",
        ),
    ],
)
def test_rejects_records_that_do_not_match(arguments, message, records_directory, tmp_path, capsys):
    out = tmp_path / "run"
    command = ["pretrain", str(records_directory), "--out", str(out), "--recipe", *arguments]
    assert cli.main(command) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("as_file", [False, True])
def test_overrides_win_over_a_recipe(as_file, records_directory, tmp_path):
    recipe = QUICK
    if as_file:
        recipe = tmp_path / "mine.yaml"
        recipe.write_text(recipe_text(QUICK), encoding="utf-8")
    out = tmp_path / "run"
    overrides = ["--records-length=32", "--records-objective=mlm_nsp", "--batch-size=4"]
    overrides += ["--total-steps=2", "--report-every=1", "--evaluate-every=null"]
    overrides += ["--model=bert_uncased_L-2_H-128_A-2"]
    command = ["pretrain", str(records_directory), "--out", str(out), "--recipe", str(recipe)]
    assert cli.main([*command, *overrides]) == 0
    written = (out / "recipe.yaml").read_text(encoding="utf-8")
    for line in ("total_steps: 2", "learning_rate: 0.002", "schedule: one_cycle"):
        assert line in written
    scores = json.loads((out / "scores.json").read_text())
    assert set(scores) == {"loss", "masked_lm_loss", "masked_lm_accuracy"}


# === Steps ===


def traced(*names):
    """Returns the results of `trace_recipes.py` by recipe."""
    script = Path(__file__).with_name("trace_recipes.py")
    results = {}
    for line in output_of(start_python(script, *names), timeout=1800).splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            results.setdefault(result["name"], []).append(result)
    return results


@pytest.fixture(scope="module")
def steps():
    return traced(*NAMES)


# Tests in `tests/training` already trace a pre-training step under a TPUStrategy.
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_recipe_steps_compile_for_tpus(name, steps):
    """Static shapes, only operations that accelerators support, and one reduction per gradient."""
    recipe, stages = recipes()[name], steps[name]
    lengths = [recipe["records_length"], recipe.get("long_records_length")]
    assert [stage["length"] for stage in stages] == [length for length in lengths if length]
    for stage in stages:
        assert stage["is_static"] and stage["dynamic"] == 0
        on_tpu = stage["on_tpu"]
        assert on_tpu["TPUReplicateMetadata"] == 1
        # One for each gradient, the loss, the denominator of each of its means, and the number of
        # examples, by which losses that layers add are divided.
        assert on_tpu["CrossReplicaSum"] == stage["sums"]
        assert on_tpu.get("While", 0) == (recipe.get("accumulation_steps", 1) > 1)
        assert not {"If", "StatelessIf", "PyFunc", "EagerPyFunc", "Assert", "Print"} & set(on_tpu)
        words = ("Ragged", "String", "Unique", "Where", "Host", "Collective")
        assert not [op for op in on_tpu if any(word in op for word in words)]
        assert math.isfinite(stage["loss"]) and stage["loss"] > 0
