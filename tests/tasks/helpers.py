"""A tiny encoder, a tokenizer with a few words, and texts with learnable labels."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import QuestionAnswerer, TextClassifier, TextEmbedder
from keras_bert_impl.tokenizers import WordPieceTokenizer

ROOT = Path(__file__).parents[2]
WORDS = "good bad film a the is great awful dull joy what very not plot".split()
GOOD = {"good", "great", "joy"}


@functools.cache
def tokenizer():
    """Returns the same tokenizer every time: it is immutable, and each instance traces graphs."""
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


def encoder(dtype=None, dropout=0.1, seed=0, **overrides):
    keras.utils.set_random_seed(seed)
    config = {
        "vocabulary_size": 5 + len(WORDS),
        "hidden_dim": 16,
        "num_layers": 1,
        "num_heads": 2,
        "intermediate_dim": 32,
        "max_length": 32,
        "dropout": dropout,
        "attention_dropout": dropout,
        "initializer_range": 0.2,
    }
    return Encoder(EncoderConfig(**config | overrides), dtype=dtype)


def classifier(labels=("negative", "positive"), dtype=None, dropout=0.1, seed=0, **arguments):
    arguments = {"labels": labels} | arguments
    return TextClassifier(encoder(dtype, dropout, seed), tokenizer(), **arguments)


def examples(count=40, seed=0):
    """Texts of 1 to 11 words, and whether each contains a good word."""
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, draw.integers(1, 12))) for _ in range(count)]
    labels = ["positive" if GOOD & set(text.split()) else "negative" for text in texts]
    return texts, labels


QUESTION_SETTINGS = {
    "max_length": 12,
    "doc_stride": 3,
    "max_question_length": 2,
    "null_threshold": 0.0,
}


def answerer(dropout=0.0, **settings):
    small = encoder(dropout=dropout, use_pooler=False)
    return QuestionAnswerer(small, tokenizer(), **QUESTION_SETTINGS | settings)


def some_questions(count, seed=0, impossible=0.0):
    """Each question names a word of its context, which has up to 14 different words."""
    draw = np.random.default_rng(seed)
    pairs, labels = [], []
    for _ in range(count):
        words = [str(word) for word in draw.permutation(WORDS)]
        words = words[: draw.integers(1, len(words))]
        place = draw.integers(len(words))
        before = "".join(word + "  " for word in words[:place])
        pairs.append((f"what {words[place]}", "  ".join(words)))
        labels.append(None if draw.random() < impossible else (words[place], len(before)))
    return pairs, labels


def choices(count=40, seed=0):
    """Prompts of 1 to 5 words with 2 to 4 endings, one of which has a good word."""
    bad = [word for word in WORDS if word not in GOOD]
    draw = np.random.default_rng(seed)
    examples, labels = [], []
    for _ in range(count):
        endings = [list(draw.choice(bad, draw.integers(1, 6))) for _ in range(draw.integers(2, 5))]
        labels.append(int(draw.integers(len(endings))))
        endings[labels[-1]].append(str(draw.choice(sorted(GOOD))))
        prompt = " ".join(draw.choice(WORDS, draw.integers(1, 6)))
        examples.append((prompt, [" ".join(ending) for ending in endings]))
    return examples, labels


def embedder(depth=1, **arguments):
    small = encoder(dropout=0.0, use_pooler=False, num_layers=depth)
    return TextEmbedder(small, tokenizer(), **arguments)


def weights(model):
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()])


# === Files ===


def save_base(directory, **overrides):
    """Writes the tiny encoder, with overrides, and its tokenizer as a model directory."""
    encoder(**overrides).save_pretrained(directory)
    tokenizer().save_pretrained(directory)
    return directory


def save_masked_lm(directory, tokenizer, **config):
    """Writes a tiny masked language model of `transformers` and its tokenizer."""
    import transformers  # here, since most tests need none of it

    transformers.set_seed(0)
    config = {
        "vocab_size": tokenizer.vocabulary_size,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
        "initializer_range": 0.5,
    } | config
    model = transformers.BertForMaskedLM(transformers.BertConfig(**config))
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def write_file(folder, name, content):
    """Writes text or bytes to a file; returns its path."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_words(path, seed, count=8):
    """Writes sentences in columns, with good words as entities."""
    texts = [text.split() for text in examples(count, seed)[0]]
    rows = [[f"{word} {'B-POS' if word in GOOD else 'O'}\n" for word in text] for text in texts]
    path.write_text("\n".join(map("".join, rows)))
    return path


def finetune_command(model, directory):
    """Writes tables of examples; returns the arguments of the command that trains on them."""
    for seed, name in enumerate(("train", "dev")):
        rows = zip(*examples(count=16, seed=seed))
        text = "".join(f"{text}\t{label}\n" for text, label in rows)
        (directory / f"{name}.tsv").write_text(f"text\tlabel\n{text}")
    files = [f"--{name}={directory / name}.tsv" for name in ("train", "dev")]
    columns = ["--text", "text", "--label", "label", "--out", str(directory / "out")]
    return ["finetune", "--model", str(model), *files, *columns]


# === Windows ===


def window_with_most_context(word, windows):
    """Returns (start, end) of the window in which a word is farthest from both ends."""
    context = [
        min(word - start, end - 1 - word) + 0.01 * (end - start) if start <= word < end else -1
        for start, end in windows
    ]
    return windows[int(np.argmax(context))]


# === Processes ===


def run_python(code, *arguments):
    """Runs code in a separate process; returns the JSON value on its last line of output."""
    process = run_script("-c", code, *arguments)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.strip().splitlines()[-1])


def run_script(*arguments):
    """Runs Python with these arguments on the CPU; returns the `subprocess.CompletedProcess`."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
