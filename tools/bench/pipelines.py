"""The input pipelines of each library, on the same text.

A system is a function of `Source` that returns the function to be measured. This function iterates
over the text once, and reports the number of rows and the number of tokens without padding.
"""

import dataclasses
import os

import numpy as np

LENGTH, BATCH_SIZE, LINES_AT_ONCE = 128, 32, 1024


@dataclasses.dataclass(frozen=True)
class Source:
    """Paths of the text, of the tokenizer's folder, and of a folder to create for records."""

    text: str
    tokenizer: str
    records: str

    def read_lines(self):
        """Returns the lines with text, without document separators."""
        with open(self.text, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
        return [line for line in lines if line and not line.startswith(("<doc ", "</doc>"))]


# === Tokenization: a row is a line ===


def our_tokenizer(source, offsets=False, parallel=True):
    """`WordPieceTokenizer` in a `tf.data` pipeline."""
    from keras_bert_impl.tokenizers import Tokenizer

    tokenizer = Tokenizer.from_pretrained(source.tokenizer)
    tokenize = (lambda x: tokenizer.tokenize_with_offsets(x)[0]) if offsets else tokenizer.tokenize
    return _tokenize_dataset(source, tokenize, parallel)


def our_lists(source):
    """`WordPieceTokenizer` on lists of lines, without a graph. The first pass is not measured."""
    from keras_bert_impl.tokenizers import Tokenizer

    tokenizer = Tokenizer.from_pretrained(source.tokenizer)
    lines = source.read_lines()

    def work():
        batches = (lines[i : i + LINES_AT_ONCE] for i in range(0, len(lines), LINES_AT_ONCE))
        tokens = sum(int(tokenizer.tokenize(batch).flat_values.shape[0]) for batch in batches)
        return {"rows": len(lines), "tokens": tokens}

    return work


def keras_hub_tokenizer(source):
    """KerasHub's `BertTokenizer` in a `tf.data` pipeline."""
    return _tokenize_dataset(source, _load_keras_hub_tokenizer(source), parallel=True)


def tokenizers(source, parallel=True):
    """The `tokenizers` library without offsets, on batches of lines."""
    os.environ["TOKENIZERS_PARALLELISM"] = str(parallel).lower()
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(os.path.join(source.tokenizer, "vocab.txt"))
    lines = source.read_lines()

    def work():
        tokens = 0
        for start in range(0, len(lines), LINES_AT_ONCE):
            batch = lines[start : start + LINES_AT_ONCE]
            encodings = tokenizer._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            tokens += sum(len(encoding) for encoding in encodings)
        return {"rows": len(lines), "tokens": tokens}

    return work


def _load_keras_hub_tokenizer(source):
    import keras_hub

    vocabulary = os.path.join(source.tokenizer, "vocab.txt")
    return keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=True)


def _tokenize_dataset(source, tokenize, parallel):
    import tensorflow as tf

    lines = source.read_lines()
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(LINES_AT_ONCE)
    calls = tf.data.AUTOTUNE if parallel else None
    dataset = dataset.map(lambda batch: tokenize(batch).flat_values, num_parallel_calls=calls)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)

    def work():
        return {"rows": len(lines), "tokens": sum(int(tf.size(ids)) for ids in dataset)}

    return work


# === Masked batches ===


def our_batches(source):
    """`pretraining_dataset`: packed rows from compressed records, with new masks every epoch."""
    from keras_bert_impl.pretraining import pretraining_dataset
    from keras_bert_impl.tokenizers import Tokenizer

    steps = _prepare(source, Tokenizer.from_pretrained(source.tokenizer))["rows"] // BATCH_SIZE
    dataset = pretraining_dataset(source.records, BATCH_SIZE).take(steps)

    def work():
        tokens = sum(np.count_nonzero(x["example_ids"]) for x, _, _ in dataset.as_numpy_iterator())
        return {"rows": steps * BATCH_SIZE, "tokens": int(tokens)}

    return work


def keras_hub_batches(source):
    """`BertMaskedLMPreprocessor` in a `tf.data` pipeline, which tokenizes raw text in every epoch.

    A row is a line, truncated or padded.
    """
    import keras_hub
    import tensorflow as tf

    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        _load_keras_hub_tokenizer(source), sequence_length=LENGTH, mask_selection_length=20
    )
    lines = source.read_lines()
    dataset = tf.data.Dataset.from_tensor_slices(lines).shuffle(len(lines)).batch(BATCH_SIZE)
    dataset = dataset.map(preprocessor, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)

    def work():
        masks = (x["padding_mask"] for x, _, _ in dataset.as_numpy_iterator())
        return {"rows": len(lines), "tokens": int(sum(mask.sum() for mask in masks))}

    return work


def transformers_batches(source, workers=0):
    """`DataCollatorForLanguageModeling` on pre-tokenized ids, in rows without padding."""
    import torch
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    tokenizer = AutoTokenizer.from_pretrained(source.tokenizer)
    ids = [i for text in tokenizer(source.read_lines())["input_ids"] for i in text]
    rows = [ids[start : start + LENGTH] for start in range(0, len(ids) - LENGTH + 1, LENGTH)]
    loader = torch.utils.data.DataLoader(
        rows,
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        collate_fn=DataCollatorForLanguageModeling(tokenizer),
    )

    def work():
        tokens = sum(batch["input_ids"].numel() for batch in loader)
        return {"rows": len(rows), "tokens": tokens}

    return work


# === Records: from a file with one sentence per line and a blank line after each document ===


def our_records(source, passes=1):
    """`prepare` on one core: tokenization, pairs, packing and compressed records."""
    from keras_bert_impl.tokenizers import Tokenizer

    tokenizer = Tokenizer.from_pretrained(source.tokenizer)
    sentences = _write_sentences(source)
    return lambda: _prepare(source, tokenizer, passes, sentences)


def plain_records(source, passes=1):
    """BERT's algorithm in plain Python."""
    from plain_examples import write_examples

    from keras_bert_impl.tokenizers import Tokenizer

    vocabulary = Tokenizer.from_pretrained(source.tokenizer).vocabulary
    sentences = _write_sentences(source)

    def work():
        with open(sentences, encoding="utf-8") as file:
            documents = [document.splitlines() for document in file.read().split("\n\n")]
        path = f"{source.records}.tfrecord"
        rows, tokens = write_examples(documents, vocabulary, path, LENGTH, dupe_factor=passes)
        return {"rows": rows, "tokens": tokens}

    return work


def _write_sentences(source):
    from keras_bert_impl.pretraining.corpus.readers import read_documents
    from keras_bert_impl.pretraining.corpus.sentences import split_sentences

    path = f"{source.records}-sentences.txt"
    with open(path, "w", encoding="utf-8") as file:
        for document in read_documents(source.text):
            for paragraph in document.paragraphs:
                file.writelines(f"{sentence}\n" for sentence in split_sentences(paragraph))
            file.write("\n")
    return path


def _prepare(source, tokenizer, passes=1, text=None):
    from keras_bert_impl.pretraining import prepare

    manifest = prepare(
        text or source.text, source.records, tokenizer, LENGTH, passes=passes, num_workers=1
    )
    counts = manifest["splits"]["train"]
    return {"rows": counts["rows"], "tokens": counts["tokens"]}


PARTS = {
    "tokenization": {
        "ours": our_tokenizer,
        "ours, lists": our_lists,
        "ours, with offsets": lambda source: our_tokenizer(source, offsets=True),
        "ours, no parallel calls": lambda source: our_tokenizer(source, parallel=False),
        "tokenizers, 1 thread": lambda source: tokenizers(source, parallel=False),
        "tokenizers, batch-parallel": tokenizers,
        "KerasHub BertTokenizer": keras_hub_tokenizer,
    },
    "masked batches": {
        "ours": our_batches,
        "KerasHub BertMaskedLMPreprocessor": keras_hub_batches,
        "transformers collator": transformers_batches,
        "transformers collator, 2 workers": lambda source: transformers_batches(source, 2),
    },
    "records": {
        "ours": our_records,
        "plain Python": plain_records,
        "ours, 10 passes": lambda source: our_records(source, passes=10),
        "plain Python, 10 passes": lambda source: plain_records(source, passes=10),
    },
}
