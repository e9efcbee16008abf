"""Selection of the documents of a corpus, and their division into blocks."""

import dataclasses
import math
from typing import NamedTuple

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.pretraining.corpus import blocks
from keras_bert_impl.pretraining.corpus.sentences import split_sentences
from keras_bert_impl.pretraining.examples import draws, records


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What to read and how to cut it; see the arguments of `prepare`."""

    paths: list
    format: str
    text_field: str
    block_characters: int
    held_out: float


class Written(NamedTuple):
    """Result of writing a corpus.

    Attributes:
        documents: int. All documents, duplicates included.
        duplicate_documents: int.
        counts: dict of split to `Counts`.
        shards: dict of split to a list of the results of `describe_shard`.
    """

    documents: int
    duplicate_documents: int
    counts: dict
    shards: dict


def numbered(documents, counts):
    """Yields (running number, document) without exact duplicates; updates `counts`."""
    seen = blocks.HashSet()
    for document in documents:
        counts["documents"] += 1
        if seen.add(document.text_hash):
            yield counts["documents"] - 1, document
        else:
            counts["duplicate_documents"] += 1


def split_of(number, held_out, seed):
    """Returns the split of a document with a given running number.

    One random document of every `1 / share` consecutive ones belongs to the smaller split, so that
    even a small corpus has some.
    """
    share = min(held_out, 1 - held_out)
    if not share:
        return "train"
    part = int(number * share)
    first, end = math.ceil(part / share), math.ceil((part + 1) / share)
    is_chosen = number == first + int(draws.uniform(seed, "held_out", part) * (end - first))
    return "held_out" if is_chosen == (held_out <= 0.5) else "train"


def check_corpus(documents, corpus, objective, seed):
    """Rejects a corpus that cannot be made into records, before any work on it.

    Reads documents only until the answer is known; for nearly every corpus these are the first few.

    Args:
        documents: iterable of `Document`.
        corpus: `Corpus`.
        objective: str. One of `RECORDS_OBJECTIVES`.
        seed: int. Seed of `prepare`.

    Raises:
        InputError: a split would have too few documents, or no document has two sentences, so that
            no second segment could follow the first.
    """
    counts = {"documents": 0, "duplicate_documents": 0}
    takes_pairs = objective == "mlm_nsp"
    missing = dict.fromkeys(records.SPLITS, 2 if takes_pairs else 1)
    if not corpus.held_out:
        del missing["held_out"]
    no_true_pair = takes_pairs
    for number, document in numbered(documents, counts):
        split = split_of(number, corpus.held_out, seed)
        missing[split] -= 1
        if no_true_pair and split == "train":
            no_true_pair = not _has_two_sentences(document)
        if not no_true_pair and max(missing.values()) <= 0:
            return
    found = counts["documents"] - counts["duplicate_documents"]
    one = "" if found == 1 else "s"
    if takes_pairs and found < 2:
        raise InputError(
            f"there is {found} different document{one} ({document.source}): next-sentence "
            "prediction takes its wrong pairs from another document. Give more documents, or "
            "choose --objective mlm."
        )
    for split, count in missing.items():
        if count > 0:
            what = "hold out" if split == "held_out" else "train on"
            raise InputError(
                f"held_out={corpus.held_out} leaves too few of {found} document{one} to {what}; "
                f"give a {'larger' if split == 'held_out' else 'smaller'} part or more documents."
            )
    raise InputError(
        f"no document of {found} has two sentences, so no second segment would follow the first: "
        "all pairs would be wrong ones. Where a document is a line, write one sentence a line and "
        "a blank line between documents; for texts of one sentence choose --objective mlm."
    )


def _has_two_sentences(document):
    if document.is_split or len(document.paragraphs) > 1:
        return len(document.paragraphs) > 1
    return len(split_sentences(document.paragraphs[0])) > 1


def first_shard_of(block, seed):
    """Returns `first_shard` of `Dealer.deal` for the rows of a block; `block` is its number."""
    return draws.stable_hash(seed, "shards", block)


def text_blocks(numbered, corpus, objective, seed):
    """Cuts each split into blocks and numbers them in the order of completion.

    Only `characters` and `source` of the documents are read.

    With next-sentence prediction a block needs two documents. If the last block of a split has only
    one, it is joined to the block before, which is therefore held back until the next is complete.
    """
    fewest = 2 if objective == "mlm_nsp" else 1
    waiting = dict.fromkeys(records.SPLITS)
    growing = {split: blocks.TextBlock(split) for split in records.SPLITS}
    number = 0
    for document_number, document in numbered:
        split = split_of(document_number, corpus.held_out, seed)
        block = growing[split]
        block.append(document_number, document)
        if block.characters >= corpus.block_characters and len(block.documents) >= fewest:
            if waiting[split]:
                yield dataclasses.replace(waiting[split], number=number)
                number += 1
            waiting[split], growing[split] = block, blocks.TextBlock(split)
    for split in records.SPLITS:
        last = [block for block in (waiting[split], growing[split]) if block and block.documents]
        if len(last) == 2 and len(last[1].documents) < fewest:
            last = [last[0].joined(last[1])]
        for block in last:
            if len(block.documents) < fewest:
                raise InputError(_one_document(split, block))
            yield dataclasses.replace(block, number=number)
            number += 1


def _one_document(split, block):
    what = "the corpus" if split == "train" else "the held-out part"
    return (
        f"{what} is one document ({block.documents[0][1].source}): next-sentence prediction takes "
        "its wrong pairs from another document. Give more documents, or choose --objective mlm."
    )
