"""tools/bench: the systems do the same work, and the ratios are right."""

import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_bert_impl import EncoderConfig, WordPieceTokenizer

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]
STEPS, BATCH_SIZE, LENGTH = 2, 4, 32


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """About 8,000 words in 100 documents, one sentence per line."""
    generator = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    documents = [
        [" ".join(generator.choices(WORDS, k=generator.randint(4, 12))) for _ in range(10)]
        for _ in range(100)
    ]
    path.write_text("\n\n".join("\n".join(lines) for lines in documents) + "\n")
    return path


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tokenizer")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    WordPieceTokenizer(vocabulary).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def batches(bench, text, tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("batches")
    make = bench("batches").make_batches
    return make(text, tokenizer, directory, BATCH_SIZE, LENGTH, STEPS, pack=True)


@pytest.mark.parametrize(
    "name", ["ours", "ours-nsp", pytest.param("keras-hub", marks=pytest.mark.slow), "transformers"]
)
def test_every_system_predicts_the_same_tokens(bench, batches, name):
    features, _, weights, tokens = bench("batches").load_batches(batches)
    config = EncoderConfig(
        vocabulary_size=len(WORDS) + 5,
        hidden_dim=16,
        num_layers=1,
        num_heads=2,
        intermediate_dim=32,
        max_length=LENGTH,
    )
    report = bench("systems").SYSTEMS[name](config, "float32", batches)()
    # Loss of an untrained model: ln(vocabulary) per token, and ln 2 per pair of segments.
    expected = math.log(config.vocabulary_size) + (math.log(2) if name == "ours-nsp" else 0)
    if name == "keras-hub":  # averages over all slots, some of them unused
        expected *= weights["masked_lm"].mean()
    # Logits with a standard deviation of about 0.1, from weights of 0.02, change it by less.
    assert report["loss"] == pytest.approx(expected, abs=0.15)
    assert report["tokens"] == tokens == np.count_nonzero(features["token_ids"])


def test_labels_per_token_are_those_of_the_slots(bench, batches):
    features, labels, weights, _ = bench("batches").load_batches(batches)
    per_token = bench("systems")._spread_labels(features, labels, weights)
    used = weights["masked_lm"] > 0
    assert np.count_nonzero(per_token != -100) == used.sum()
    at_slots = np.take_along_axis(per_token, features["masked_positions"], axis=-1)
    np.testing.assert_array_equal(at_slots[used], labels["masked_lm"][used])


def test_padded_rows_hold_one_example(bench, text, tokenizer, tmp_path):
    make, load = bench("batches").make_batches, bench("batches").load_batches
    path = make(text, tokenizer, tmp_path, BATCH_SIZE, LENGTH, STEPS, pack=False)
    features, _, _, tokens = load(path)
    assert features["example_ids"].max() == 1
    assert features["cls_positions"].shape == (STEPS, BATCH_SIZE, 1)
    assert tokens < STEPS * BATCH_SIZE * LENGTH


@pytest.mark.slow
def test_pipelines_see_the_whole_text(bench, text, tokenizer, tmp_path):
    lines = [line for line in text.read_text().split("\n") if line]
    num_words = sum(len(line.split()) for line in lines)

    def run(part):
        reports = {}
        for number, (name, system) in enumerate(bench("pipelines").PARTS[part].items()):
            if "workers" not in name:  # do not fork a process in which TensorFlow runs
                source = bench("pipelines").Source(
                    str(text), str(tokenizer), str(tmp_path / f"{part}{number}")
                )
                reports[name] = system(source)()
        return reports

    for report in run("tokenization").values():
        assert report == {"rows": len(lines), "tokens": num_words}
    batches = run("masked batches")
    with_specials = num_words + 2 * len(lines)
    assert batches["KerasHub BertMaskedLMPreprocessor"]["tokens"] == with_specials
    assert batches["transformers collator"]["tokens"] == with_specials // 128 * 128
    records = run("records")["ours"]
    assert batches["ours"]["rows"] == records["rows"] // 32 * 32
    assert records["tokens"] > num_words


def worker(body):
    path = str(ROOT / "tools" / "bench")
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r}); {body}"]


def test_measure_runs_every_worker_in_every_round(bench):
    body = "import harness, itertools; calls = itertools.count(); "
    body += "harness.serve(lambda: {'tokens': next(calls)})"
    reports = bench("harness").measure({"a": worker(body), "b": worker(body)}, 3, threads=1)
    for name in ("a", "b"):
        assert [report["tokens"] for report in reports[name]] == [1, 2, 3]  # 0 was the warm-up
        assert all(report["seconds"] > 0 for report in reports[name])


def test_worker_that_fails_is_an_error_with_its_reason(bench):
    with pytest.raises(RuntimeError, match="(?s)broken ended:.*division by zero"):
        bench("harness").measure({"broken": worker("1 / 0")}, 1, threads=1)


def test_table_takes_ratios_within_a_round(bench):
    def reports(*seconds):
        return [{"tokens": 100, "seconds": s, "cpu_seconds": 2 * s} for s in seconds]

    # The machine is two and four times as slow in the later rounds; the ratio stays 2.
    rounds = {"base": reports(1, 2, 4), "other": reports(0.5, 1, 2)}
    lines = bench("harness").table(rounds, "tokens", baseline="base").split("\n")
    assert lines[2] == "| base | 50 (25–100) | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) |"
    assert lines[3] == "| other | 100 (50–200) | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) |"


@pytest.mark.slow
def test_benchmark_from_the_command_line(bench, text, tokenizer, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    bench("pretraining").main(
        [
            *("--text", str(text), "--tokenizer", str(tokenizer), "--systems", "ours"),
            *("--model", "bert_uncased_L-2_H-128_A-2", "--layers", "1", "--length", "32"),
            *("--steps", "1", "--rounds", "1", "--threads", "1"),
        ]
    )
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].startswith("bert_uncased_L-2_H-128_A-2, 1 layers, float32, 8 x 32")
    assert "1.00 (1.00–1.00)" in lines[4]
