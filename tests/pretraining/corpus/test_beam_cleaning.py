"""The Beam transform keeps the same documents as `clean`, with the same counts."""

import json
import random

import pytest

beam = pytest.importorskip("apache_beam", reason="takes the extra beam")
pytest.importorskip("datasketch", reason="takes the extra corpus")

from keras_bert_impl.pretraining import clean  # noqa: E402
from keras_bert_impl.pretraining.corpus.beam_cleaning import CleanTexts  # noqa: E402
from keras_bert_impl.pretraining.corpus.cleaning import STEPS  # noqa: E402
from keras_bert_impl.utils.errors import InputError  # noqa: E402


@pytest.fixture(scope="module")
def texts():
    """20 texts, copies of some with edits, a page, another language and control characters."""
    generator = random.Random(3)
    words = [f"w{number}" for number in range(500)]
    texts = [generator.choices(words, k=100) for _ in range(20)]
    edited = [
        [f"e{n}"] * edits + text[edits:] for n, text in enumerate(texts) for edits in (0, 1, 9)
    ]
    generator.shuffle(edited)
    special_texts = [
        "<html><body><p>The first boats came back from the sea.</p></body></html>",
        "<html> <body></body> </html>",
        "Der Hafen war ruhig, als die ersten Boote am Morgen vom Meer zurückkamen.",
        "The first boats\x07 came back from the sea.",
    ]
    return [" ".join(text) for text in [*texts, *edited]] + special_texts


def test_the_same_documents_and_counts(texts, tmp_path):
    counts = clean(texts, tmp_path / "out.jsonl", near_duplicates=0.7)
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert counts["steps"]["duplicates"]["removed"] > 20 > counts["steps"]["html"]["removed"] > 0
    assert counts["steps"]["near_duplicates"]["removed"] >= 20
    numbered = list(enumerate(texts))
    random.Random(4).shuffle(numbered)
    pipeline = beam.Pipeline("DirectRunner")
    cleaned = pipeline | beam.Create(numbered) | CleanTexts(near_duplicates=0.7)
    cleaned | beam.Map(json.dumps) | beam.io.WriteToText(str(tmp_path / "kept"))
    result = pipeline.run()
    result.wait_until_finish()
    pairs = [json.loads(line) for path in tmp_path.glob("kept*") for line in open(path)]
    assert [text for _, text in sorted(pairs)] == [json.loads(line)["text"] for line in lines]
    metrics = result.metrics().query()["counters"]
    totals = {counter.key.metric.name: counter.committed for counter in metrics}
    for step in STEPS:
        for name in ("removed", "changed", "characters"):
            assert totals.get(f"{step}/{name}", 0) == counts["steps"][step][name], (step, name)


def test_languages(texts, tmp_path):
    counts = clean(texts[-4:], tmp_path / "out.jsonl", languages=["de"])
    assert counts["written"]["documents"] == 1
    with beam.Pipeline("DirectRunner") as pipeline:
        cleaned = pipeline | beam.Create(list(enumerate(texts[-4:]))) | CleanTexts(["de"])
        cleaned | beam.Values() | beam.io.WriteToText(str(tmp_path / "kept"))
    (path,) = tmp_path.glob("kept*")
    assert path.read_text("utf-8") == texts[-2] + "\n"


def test_bad_settings():
    with pytest.raises(InputError, match="language 'xx'"):
        CleanTexts(["xx"])
    with pytest.raises(InputError, match="near_duplicates must be"):
        CleanTexts(near_duplicates=2)
