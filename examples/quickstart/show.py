"""Output of the quickstart: scores, filled masks, predictions and two figures."""

import random
import re
from pathlib import Path

import numpy as np

from examples.quickstart.job import Job
from keras_bert_impl import Encoder, MaskedLM, attention_map, learning_curves

_WORD = re.compile(r"[a-z]{5,}")


def score_lines(scores: dict[str, dict[str, float]]) -> list[str]:
    words, labels = scores["masked_lm"], scores["classification"]
    return [
        "on held-out documents",
        f"  masked words, loss            {words['loss']:6.3f}   "
        f"unigram {words['unigram_loss']:.3f}",
        f"  masked words, accuracy        {words['accuracy']:6.1%}   "
        f"unigram {words['unigram_accuracy']:.1%}",
        f"  next sentence, accuracy       {words['next_sentence_accuracy']:6.1%}   "
        f"majority {words['next_sentence_majority']:.1%}",
        f"  which library, accuracy       {labels['pretrained']:6.1%}   "
        f"same network without pre-training {labels['untrained']:.1%}",
        f"  {'':36}   TF-IDF + logistic regression {labels['tfidf_logistic_regression']:.1%}",
        f"  {'':36}   majority {labels['majority']:.1%}",
    ]


def fill_mask_lines(job: Job, count: int = 5) -> list[str]:
    """Returns held-out sentences with one masked word, and the model's predictions."""
    masked: list[str] = []
    hidden: list[str] = []
    draw = random.Random(job.settings.seed)
    for sentence in _sentences(job):
        words = sentence.split()
        places = [place for place, word in enumerate(words) if _WORD.fullmatch(word)]
        if 8 <= len(words) <= 20 and places and len(masked) < count:
            place = draw.choice(places)
            hidden.append(words[place])
            masked.append(" ".join([*words[:place], "[MASK]", *words[place + 1 :]]))
    fillings = MaskedLM.from_pretrained(job.path("pretraining/model")).fill(masked, top_k=4)
    lines = []
    for text, word, masks in zip(masked, hidden, fillings, strict=True):
        guesses = ", ".join(f"{filling.token} {filling.score:.0%}" for filling in masks[0])
        lines += [f"  {text}", f"      masked: {word}; predicted: {guesses}"]
    return lines


def answer_lines(job: Job, count: int = 4) -> list[str]:
    """Returns held-out texts, the exported model's predictions and the labels."""
    dev = job.labeled("dev")
    rows = [place * len(dev) // count for place in range(count)]
    texts = [dev.texts[row] for row in rows]
    answer = job.ask(texts)
    lines = []
    for row, text, label, scores in zip(rows, texts, answer["labels"], answer["scores"]):
        lines += [
            f"  {text[:90]}{'...' if len(text) > 90 else ''}",
            f"      predicted: {label} ({max(scores):.0%}); label: {dev.labels[row]}",
        ]
    return lines


def draw(job: Job, scores: dict[str, dict[str, float]]) -> tuple[Path, Path]:
    curves, attention = job.path("learning-curves.png"), job.path("attention.png")
    words = scores["masked_lm"]
    learning_curves(
        job.path("pretraining/metrics.jsonl"),
        curves,
        title="Pre-training",
        names=["masked_lm_loss", "masked_lm_accuracy", "next_sentence_accuracy"],
        baselines={
            "masked_lm_loss": ("unigram", words["unigram_loss"]),
            "masked_lm_accuracy": ("unigram", words["unigram_accuracy"]),
        },
    )
    directory = job.path("pretraining/model")
    encoder = Encoder.from_pretrained(directory)
    tokenizer = job.tokenizer()
    sentence = next(s for s in _sentences(job) if 8 <= len(s.split()) <= 14)
    features = tokenizer([sentence])
    scores = encoder.with_outputs("attention_scores")(features)["attention_scores"][-1]
    tokens = [tokenizer.id_to_token(int(i)) for i in np.asarray(features["token_ids"])[0]]
    attention_map(
        tokens, np.asarray(scores)[0], attention, title=f"Layer {len(encoder.blocks)}, each head"
    )
    return curves, attention


def _sentences(job):
    """Yields the first sentence of each held-out text."""
    for text in job.labeled("dev").texts:
        yield re.split(r"(?<=[.!?]) ", text)[0]
