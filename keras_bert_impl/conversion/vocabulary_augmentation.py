"""Larger vocabularies for a model: pieces of a domain, and tokens found as they are written."""

import dataclasses

import numpy as np

from keras_bert_impl.conversion.formats import read_tensors
from keras_bert_impl.interop import (
    all_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    write_model_directory,
)
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory
from keras_bert_impl.settings import PositiveInt, check
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.new_tokens import learn_pieces

_OF_EACH_PIECE = ("embeddings/token_embeddings", "masked_lm/output_bias")


def augment_vocabulary(source, target, texts, num_pieces=1000, min_frequency=5):
    """Writes a model with pieces of a domain behind those of its vocabulary.

    Of WordPiece and SentencePiece these are words that it has in several pieces; where a vocabulary
    has merges, these go on. Old ids stay. The embedding of a new piece is the mean of those of its
    old pieces, and so is its bias in a head for masked words; all else is as it was. Go on
    pre-training from there, for a new piece is new to the layers above.

    Args:
        source: str or `Path`: whatever `Encoder.from_pretrained` takes, with a tokenizer.
        target: str or `Path` of the model directory to write; files of the same names are replaced.
        texts: iterable of str, of the domain.
        num_pieces: int, the most pieces to add. Default 1000.
        min_frequency: int: a word, or a pair of pieces, that is rarer in `texts` makes no new one.
            Default 5.

    Returns:
        list of str, the pieces added, in the order of their ids.

    Raises:
        InputError: a model that is missing or damaged, or has a generator, whose vocabulary would
            stay as it is; or texts that need no new piece.

    Source: Yao et al. 2021, "Adapt-and-Distill", section 3.1, where an embedding is the mean of its
    pieces', too; there the pieces to add are found by training a vocabulary. For the pieces see
    `learn_pieces`.

    Example:
        augment_vocabulary("bert-base-uncased", "bert-medical", open("abstracts.txt"))
    """
    num_pieces = check("num_pieces", num_pieces, PositiveInt)
    min_frequency = check("min_frequency", min_frequency, PositiveInt)
    model, tokenizer = _open(source)
    larger, pieces = learn_pieces(tokenizer, texts, num_pieces, min_frequency)
    if not pieces:
        raise InputError(
            f"no word, and no pair of pieces, comes {min_frequency} times in the texts and is not "
            "in one piece already."
        )
    _write(target, model, tokenizer, larger, pieces.values())
    return list(pieces)


def add_tokens(source, target, tokens):
    """Writes a model with tokens that are found in texts as they are written, such as `[E1]`.

    Old ids stay. The embedding of a new token, and its bias in a head for masked words, is the mean
    of those of the pieces that the old tokenizer makes of it.

    Args:
        source: str or `Path`: whatever `Encoder.from_pretrained` takes, with a tokenizer.
        target: str or `Path` of the model directory to write; files of the same names are replaced.
        tokens: list of str, `AddedToken`, dicts of its fields or `tokenizers.AddedToken`.

    Returns:
        The larger `Tokenizer`.

    Raises:
        InputError: a model that is missing or damaged, or has a generator; or something that is no
            token.

    Example:
        add_tokens("bert-base-uncased", "bert-entities", ["[E1]", "[/E1]"])
    """
    model, tokenizer = _open(source)
    larger = tokenizer.add_tokens(tokens)
    new = larger.vocabulary[tokenizer.vocabulary_size :]
    pieces = tokenizer.tokenize(new).to_list() if new else []
    _write(target, model, tokenizer, larger, [ids or [tokenizer.unk_id] for ids in pieces])
    return larger


def _open(source):
    """(model, tokenizer) of a model directory; raises where the vocabulary cannot grow."""
    model = open_model(source)
    if (model.path / "generator").is_dir():
        raise InputError(f"{source} has a generator, whose vocabulary would stay as it is.")
    return model, Tokenizer.from_pretrained(model.path)


def _write(target, model, tokenizer, larger, pieces):
    """Writes a model with the larger tokenizer.

    Args:
        target: str or `Path`.
        model: `interop.ModelSource`.
        tokenizer, larger: `Tokenizer`s, the old and the new one.
        pieces: the old ids that each new token stands for.
    """
    config = read_encoder_config(model)
    size = max(config.vocabulary_size, larger.vocabulary_size)
    tensors = read_tensors(model, config)
    encoder, heads = all_tensors(config)
    names = {name.tensor for name in encoder + heads if name.variable in _OF_EACH_PIECE}
    for key, array in tensors.items():
        if key.removeprefix(f"{model.prefix}.") in names:
            tensors[key] = _with_means(array, tokenizer.vocabulary_size, pieces, size)
    described = model.config | huggingface_config(
        dataclasses.replace(config, vocabulary_size=size)
    )
    described["architectures"] = model.config.get("architectures", described["architectures"])
    with replace_directory(target) as temporary:
        write_model_directory(temporary, described, tensors)
        larger.save_pretrained(temporary)


def _with_means(array, first, pieces, size):
    """Rows of pieces, `[size, ...]`, with the means of old ones from row `first` on.

    Args:
        array: of a row for each id; some models have rows for ids that the tokenizer lacks.
        first: int, the first new id.
        pieces: list of lists of int, the ids of the old pieces of each new one.
        size: int.
    """
    rows = np.zeros((size, *array.shape[1:]), array.dtype)
    rows[: len(array)] = array
    for number, ids in enumerate(pieces, first):
        rows[number] = array[ids].mean(axis=0, dtype="float32")
    return rows
