"""Which documents of a corpus are used, and which of them make a block."""

import dataclasses
from typing import NamedTuple

from keras_bert_impl.errors import InputError
from keras_bert_impl.pretraining import blocks, draws, records


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What is read, and how it is cut; the arguments of `prepare`."""

    paths: list
    format: str
    text_field: str
    block_characters: int
    held_out: float


class Written(NamedTuple):
    """What came of a corpus.

    Attributes:
        documents, duplicate_documents: ints, the former with the latter.
        counts: dict of split -> `Counts`.
        shards: dict of split -> list of what `describe_shard` returns.
    """

    documents: int
    duplicate_documents: int
    counts: dict
    shards: dict


def numbered(documents, counts):
    """Yields (running number, document) without exact duplicates; fills in `counts`."""
    seen = blocks.HashSet()
    for document in documents:
        counts["documents"] += 1
        if seen.add(document.text_hash):
            yield counts["documents"] - 1, document
        else:
            counts["duplicate_documents"] += 1


def split_of(number, held_out, seed):
    """The split of a document by its running number."""
    return "held_out" if draws.uniform(seed, "held_out", number) < held_out else "train"


def first_shard_of(block, seed):
    """Where the rows of a block begin, for `Dealer.deal`; `block` is its number."""
    return draws.stable_hash(seed, "shards", block)


def text_blocks(numbered, corpus, objective, seed):
    """Cuts each split into blocks and numbers these in the order in which they are complete.

    Of the documents only `characters` and `source` are looked at.

    With next-sentence prediction a block needs two documents: the last of a split, if it holds
    one, joins the block before it, which therefore waits until the next is complete.
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
