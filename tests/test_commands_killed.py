"""Commands whose process is killed before each operation on the file system."""

import pytest

from keras_bert_impl.cli.main import main
from tests.killed import put, states_of, visible
from tests.runs.test_commands import write_table
from tests.tasks.helpers import examples, save_base

COLUMNS = "--text=review --label=sentiment"
FINETUNE = (
    f"finetune --model={{world}}/base --train={{world}}/train.csv {COLUMNS} "
    "--max-length=16 --learning-rate=0.02"
)
ONE_RUN = f"{FINETUNE} --dev={{world}}/dev.csv"
# Name -> command. A command with {n} first writes old outputs, with n = 1.
COMMANDS = {
    "calibrate": "calibrate --model={out}/run --threshold=f1",
    "calibrate lora": "calibrate --model={out}/lora --threshold=f1",
    "evaluate": f"evaluate --model={{world}}/run{{n}} --dev={{world}}/{{n}}.csv {COLUMNS} "
    "--out={out}/scored",
    **{
        f"predict {form}": "predict --model={world}/run{n} {world}/{n}.csv --text=review "
        f"--out={{out}}/predicted.{form}"
        for form in ("csv", "tsv", "jsonl", "parquet")
    },
    "merge": "merge --model={world}/lora{n} --out={out}/merged",
    **{
        f"convert {form}": f"convert --from={{world}}/run{{n}} --to={{out}}/model --form={form}"
        for form in ("google",)
    },
    **{
        f"export {form}": f"export --model={{world}}/run{{n}} --out={{out}}/{form} --format={form}"
        for form in ("saved_model", "onnx", "openvino", "litert")
    },
    "student": "student --teacher={world}/run{n} --layers=1 --out={out}/student",
    "vocab": "vocab {world}/{n}.txt --out={out}/vocabulary",
    "clean": "clean {world}/{n}.txt --out={out}/clean.jsonl --workers=1",
    "look": "look {world}/run{n} good --out={out}/look.html",
    "report": "report {out}/run",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A base model, examples, texts, and runs."""
    folder = tmp_path_factory.mktemp("world")
    save_base(folder / "base")
    for seed, name in enumerate(("train", "dev", "1", "2")):
        write_table(folder / f"{name}.csv", seed)
    for seed, batch_sizes in ((1, [16]), (2, [4, 16])):
        texts, _ = examples(200, seed)
        (folder / f"{seed}.txt").write_text("".join(f"{text}.\n\n" for text in texts))
        (folder / f"{seed}.yaml").write_text(f"batch_size: {batch_sizes}\n")
    for out, options in (
        ("run1", ""), ("run2", "--batch-size=8"),
        ("lora1", "--tuning=lora"), ("lora2", "--tuning=lora --batch-size=8"),
    ):  # fmt: skip
        assert run(f"{ONE_RUN} --epochs=8 --out={{world}}/{out} {options}", world=folder) == 0
    return folder


def run(command, **names):
    return main(command.format(**names).split())


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_of_a_killed_command_are_old_or_new(world, tmp_path, name):
    names = {"world": world, "out": tmp_path / "out", "n": 1}
    put(world / "run1", tmp_path / "out" / "run")
    put(world / "lora1", tmp_path / "out" / "lora")
    if "{n}" in COMMANDS[name]:
        assert run(COMMANDS[name], **names) == 0
        names["n"] = 2
    with states_of(tmp_path / "out", tmp_path / "states") as states:
        assert run(COMMANDS[name], **names) == 0
    old, new = visible(states[0]), visible(states[-1])
    for state in states:
        put(state, tmp_path / "out")
        assert visible(state) in (old, new)
        assert run(COMMANDS[name], **names) == 0
        again = visible(tmp_path / "out")
        assert {n for n in new if "tfevents" not in n} <= again.keys()
        results = "scores.json" if name.startswith("calibrate") else ("scores.json", "safetensors")
        assert all(again[n] == new[n] for n in new if n.endswith(results))
        assert not [*(tmp_path / "out").rglob("*.aside"), *(tmp_path / "out").rglob("ckpt-*")]
