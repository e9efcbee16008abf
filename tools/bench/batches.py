"""Masked batches of real text, which are created once with this package and used by all systems."""

import numpy as np


def make_batches(text, tokenizer_directory, directory, batch_size, length, steps, pack):
    """Writes `steps` batches of the first rows that training would read.

    Args:
        text: path of a corpus that `prepare` reads.
        tokenizer_directory: path of a folder with `vocab.txt` and `tokenizer_config.json`.
        directory: `Path` to write into.
        batch_size, length: ints, the number of rows per batch and of tokens per row.
        steps: int.
        pack: bool. If False, each row contains one example and padding.

    Returns:
        `Path` of an `.npz` file with arrays `[steps, batch_size, ...]` named as in
        `pretraining_dataset`, with the prefix `labels.` for labels and `weights.` for weights.
    """
    # a machine that only loads batches may have no TensorFlow
    from keras_bert_impl.pretraining import prepare, pretraining_dataset
    from keras_bert_impl.tokenizers import Tokenizer

    records = directory / f"records-{'packed' if pack else 'padded'}-{length}"
    if not records.exists():
        tokenizer = Tokenizer.from_pretrained(tokenizer_directory)
        prepare(text, records, tokenizer, length=length, pack=pack, num_workers=1)
    arrays = {}
    for features, labels, weights in pretraining_dataset(records, batch_size).take(steps):
        for prefix, group in (("", features), ("labels.", labels), ("weights.", weights)):
            for name, tensor in group.items():
                arrays.setdefault(prefix + name, []).append(tensor.numpy())
    path = records.with_suffix(".npz")
    np.savez(path, **{name: np.stack(batches) for name, batches in arrays.items()})
    return path


def load_batches(path):
    """Returns (features, labels, weights), each `[steps, batch_size, ...]`, and real tokens."""
    groups = {}, {}, {}
    with np.load(path) as arrays:
        for name in arrays.files:
            group = {"labels": 1, "weights": 2}.get(name.split(".")[0], 0)
            groups[group][name.split(".")[-1]] = arrays[name]
    return *groups, int(np.count_nonzero(groups[0]["example_ids"]))
