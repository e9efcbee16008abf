"""Every command that reads a run names the damaged file of the run and the way to go on."""

import json
import shutil
from pathlib import Path

import pytest

from keras_bert_impl.cli.main import main
from tests.runs.test_commands import finetune, folder  # noqa: F401

DAMAGES = [b"", b"\x00\xff\xfe", b"[]", b"5", b"{}", b'{"cut": [1']
OF_FILE = {
    "recipe.yaml": [b"dtype: []\n"],
    "data.json": [{"train": 5}, {"dev": {}}],
    "scores.json": [{"": 0.5}, {"accuracy": {}}, {"accuracy": "high"}],
    "metrics.jsonl": [{"step": 1, "": 0.5}, {"step": 1, "loss": {}}],
    "predictions.tsv": [],
    "model/config.json": [{"keras_bert_impl": {"model_class": {}}}, {"id2label": 5}],
    "model/vocab.txt": [],
}
READ_FIRST = {  # commands that cannot go on without the file
    "recipe.yaml": {"finetune", "evaluate", "predict"},
    "data.json": {"finetune"},
    "scores.json": {"finetune"},
}
SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("merge", "convert", "drift", "compare", "export")
]


def commands(files, run, out):
    table = files / "dev.csv"
    model = ["--model", run]
    return {
        "finetune": [*finetune(files, out=run), "--epochs=1", "--max-length=16", "--seed=3"],
        "evaluate": ["evaluate", *model],
        "predict": ["predict", *model, table],
        "report": ["report", run],
        "compare": ["report", files / "run", run, "--out", f"{out}.html"],
        "merge": ["merge", *model, "--out", out],
        "convert": ["convert", "--from", run, "--to", out],
        "drift": ["drift", *model, "--served", table, "--text", "review"],
        "export": ["export", *model, "--out", out],
    }


@pytest.mark.parametrize("command", ["finetune", "evaluate", "predict", "report", *SLOW])
@pytest.mark.parametrize("name", OF_FILE)
def test_a_damaged_file_of_a_run_is_named(folder, tmp_path, capsys, name, command):  # noqa: F811
    for number, damage in enumerate([*DAMAGES, *OF_FILE[name]]):
        run = tmp_path / f"run{number}"
        shutil.copytree(folder / "run", run)
        if isinstance(damage, dict):
            before = {} if name == "metrics.jsonl" else json.loads((run / name).read_text())
            damage = json.dumps(before | damage).encode()
        (run / name).write_bytes(damage)
        arguments = commands(folder, run, tmp_path / f"out{number}")[command]
        capsys.readouterr()
        status = main(list(map(str, arguments)))
        lines = capsys.readouterr().err.splitlines()
        assert status == 2 or status == 0 and command not in READ_FIRST.get(name, ()), damage
        if status == 2:
            errors = [line for line in lines if line.startswith("keras-bert: ")]
            assert errors == lines[-1:] and Path(name).name in errors[0], (damage, lines)
            assert "/" in name or f"Restore {name}, or choose another directory" in errors[0]
