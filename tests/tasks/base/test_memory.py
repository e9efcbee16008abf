"""Processing many texts takes the memory of a few, apart from the result.

`tracemalloc` counts allocations of NumPy and Python, which include the outputs of all batches. With
a small block size, few texts are many blocks: four times the texts must have the same peak, while
processing all at once would take four times as much.
"""

import tracemalloc

import keras
import numpy as np
import pytest

from keras_bert_impl.data.batches import blocks
from keras_bert_impl.tasks import (
    FeatureTagger,
    MaskedLM,
    MultipleChoice,
    TextEmbedder,
    TokenClassifier,
    search,
    zero_shot,
)
from keras_bert_impl.tasks.embedding import search as semantic_search
from tests.tasks import helpers
from tests.tasks.helpers import answerer, some_questions

BLOCK = 32  # texts


def small(**overrides):
    return helpers.encoder(dropout=0.0, **overrides), helpers.tokenizer()


def words(count):
    """Short texts and a long one."""
    texts = [helpers.WORDS[: 3 + number % 5] for number in range(count)]
    texts[7] = helpers.WORDS * 40
    return texts


def questions(count):
    return some_questions(count)[0]


def choices(count):
    return [(text, ["good", "bad"]) for text in helpers.examples(count)[0]]


def texts(count):
    return helpers.examples(count)[0]


def masked(count):
    return [f"{text} [MASK]" for text in helpers.examples(count)[0]]


def searched():
    """Returns a function that searches for queries in fixed vectors."""
    embedder = TextEmbedder(*small(use_pooler=False))
    stored = np.random.default_rng(0).normal(size=(4096, 16)).astype("float32")
    return lambda queries: search(embedder, queries, stored)


def entailed():
    classifier = helpers.classifier(["entailment", "contradiction"], dropout=0.0)
    return lambda texts: zero_shot(classifier, texts, ["film", "plot", "joy", "dull"])


TAGS = [f"tag{number}" for number in range(30)]
KINDS = {
    "classify": (lambda: helpers.classifier(dropout=0.0).predict, texts),
    "tag": (lambda: TokenClassifier(*small(), labels=TAGS).tag, words),
    "token_classifier": (lambda: TokenClassifier(*small(), labels=TAGS).predict, words),
    "feature_tagger": (lambda: FeatureTagger(*small(), labels=TAGS, lstm_dim=4).predict, words),
    "questions": (lambda: answerer(num_best=4, null_threshold=None).predict, questions),
    "answer": (lambda: answerer(null_threshold=None).answer, questions),
    "choices": (lambda: MultipleChoice(*small()).predict, choices),
    "embed": (lambda: TextEmbedder(*small(use_pooler=False)).encode, texts),
    "similarities": (
        lambda: TextEmbedder(*small(use_pooler=False)).similarities,
        lambda count: list(zip(texts(count), texts(count))),
    ),
    "search": (searched, texts),
    "fill": (lambda: MaskedLM(*small(use_pooler=False)).fill, masked),
    "perplexity": (lambda: MaskedLM(*small(use_pooler=False)).pseudo_perplexity, texts),
    "zero_shot": (entailed, texts),
}


def transient(function, inputs):
    """Returns the peak bytes allocated by a call, apart from its result."""
    tracemalloc.start()
    try:
        result = function(inputs)
        current, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result is not None
    return peak - current


# The other kinds process blocks with the same function.
QUICK = ("classify", "tag", "questions", "search", "fill")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in QUICK else [pytest.mark.slow]) for kind in KINDS],
)
def test_memory_does_not_grow_with_the_number_of_texts(kind, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_TEXTS", BLOCK)
    monkeypatch.setattr(semantic_search, "_QUERIES", BLOCK)
    make, of_count = KINDS[kind]
    function = make()
    few, many = of_count(BLOCK), of_count(4 * BLOCK)
    function(many)  # allocates graphs and caches
    # What runs beside it, such as JAX's caches, can only add: the least of three.
    once, four_times = (
        min(transient(function, inputs) for _ in range(3)) for inputs in (few, many)
    )
    # Lists of validated inputs take some hundred bytes per text.
    assert four_times < 1.3 * once + 2000 * 3 * BLOCK, f"{once:,} and {four_times:,} bytes"


def test_limits_scores_per_batch_of_masks(monkeypatch):
    """Each mask has a score for every token of the vocabulary; BERT's has 30,522."""
    model = MaskedLM(*small(use_pooler=False))
    prompts = [f"{text} {'[MASK] ' * (1 + number % 9)}" for number, text in enumerate(texts(100))]
    expected = model.fill(prompts)
    sizes, scores = [], model._score_masks

    def counted(*arguments):
        batch_scores = scores(*arguments)
        sizes.append(batch_scores.shape[0] * batch_scores.shape[1])
        return batch_scores

    monkeypatch.setattr(model, "_score_masks", counted)
    assert [len(masks) for masks in model.fill(prompts)] == [1 + i % 9 for i in range(100)]
    assert max(sizes) <= 64 and sum(sizes) >= sum(map(len, expected))
    alone = model.fill(prompts[:1], top_k=3)[0]
    assert [filling.token for filling in alone[0]] == [f.token for f in expected[0][0][:3]]


def test_blocks_are_limited_by_texts_and_characters():
    texts = ["a" * 10] * 5 + ["b" * 100, ("c" * 30, "d" * 30), "e"]
    assert [len(block) for block in blocks.blocks(texts, 4, 1000)] == [4, 4]
    assert [len(block) for block in blocks.blocks(texts, 100, 60)] == [6, 1, 1]
    assert sum(blocks.blocks(texts, 3, 60), []) == texts
    texts = ["a"] * 5 + ["b" * 9, ("c" * 4, "c" * 5), "d"]
    assert [len(block) for block in blocks.blocks(texts, 4, 9)] == [4, 2, 1, 1]
    assert list(blocks.blocks([])) == [[]]


def test_blocks_give_the_same_answers_as_one_call(monkeypatch):
    sentences = words(50)
    model = TokenClassifier(*small(), labels=TAGS)
    whole = model.predict(sentences, verbose=0)
    pairs = questions(50)
    answering = answerer(null_threshold=0.0)
    answers = answering.predict(pairs, verbose=0)
    monkeypatch.setattr(blocks, "MOST_TEXTS", 16)
    for ours, theirs in zip(model.predict(sentences, verbose=0), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    again = answering.predict(pairs, verbose=0)
    assert [[a.text for a in of] for of in again] == [[a.text for a in of] for of in answers]


@pytest.mark.slow
def test_blocks_have_one_progress_bar(monkeypatch, capsys):
    monkeypatch.setattr(blocks, "MOST_TEXTS", 16)
    helpers.classifier().predict(texts(50), verbose=2)
    assert "50/50" in capsys.readouterr().out
    helpers.classifier().predict(texts(50), verbose=0)
    assert capsys.readouterr().out == ""
    keras.backend.clear_session()
