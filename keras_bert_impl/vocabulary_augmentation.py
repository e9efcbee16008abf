"""Whole words of a domain for a model that has them in pieces."""

import dataclasses

import numpy as np

from keras_bert_impl.conversion import read_tensors
from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_directory
from keras_bert_impl.interop import (
    all_tensors,
    huggingface_config,
    open_model,
    read_encoder_config,
    write_model_directory,
)
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.tokenizers.vocabulary import find_domain_words

_OF_EACH_PIECE = ("embeddings/token_embeddings", "masked_lm/output_bias")


def augment_vocabulary(source, target, texts, num_words=1000, min_frequency=5):
    """Writes a model with words of a domain as further pieces of its vocabulary.

    The new pieces stand behind the old ones, whose ids stay. The embedding of a new one is the mean
    of those of its old pieces, and so is its bias in a head for masked words; all else is as it was.
    Go on pre-training from there, for a word in one piece is new to the layers above.

    Args:
        source: str or `Path`: whatever `Encoder.from_pretrained` takes, with a WordPiece tokenizer.
        target: str or `Path` of the model directory to write; files of the same names are replaced.
        texts: iterable of str, of the domain.
        num_words: int, the most words to add. Default 1000.
        min_frequency: int: a word that is rarer in `texts` is not added. Default 5.

    Returns:
        list of str, the words added, those that shorten the texts most first.

    Raises:
        InputError: a model that is missing, damaged or of another kind of vocabulary, or texts that
            have no such word.

    Source: Yao et al. 2021, "Adapt-and-Distill", section 3.1, where an embedding is the mean of its
    pieces', too; there the pieces to add are found by training a vocabulary.

    Example:
        augment_vocabulary("bert-base-uncased", "bert-medical", open("abstracts.txt"))
    """
    model = open_model(source)
    config = read_encoder_config(model)
    tokenizer = Tokenizer.from_pretrained(model.path)
    if not isinstance(tokenizer, WordPieceTokenizer):
        raise InputError(
            f"{source} has a {tokenizer.kind} vocabulary; words can be added to WordPiece alone."
        )
    if (model.path / "generator").is_dir():
        raise InputError(f"{source} has a generator, whose vocabulary would stay as it is.")
    words = find_domain_words(texts, tokenizer, num_words, min_frequency)
    if not words:
        raise InputError(
            f"no word comes {min_frequency} times in the texts and is in several pieces."
        )
    tensors = read_tensors(model, config)
    encoder, heads = all_tensors(config)
    names = {name.tensor for name in encoder + heads if name.variable in _OF_EACH_PIECE}
    for key, array in tensors.items():
        if key.removeprefix(f"{model.prefix}.") in names:
            means = [array[ids].mean(axis=0, dtype="float32") for ids in words.values()]
            tensors[key] = np.concatenate([array, np.stack(means).astype(array.dtype)])
    larger = dataclasses.replace(config, vocabulary_size=config.vocabulary_size + len(words))
    described = model.config | huggingface_config(larger)
    described["architectures"] = model.config.get("architectures", described["architectures"])
    with replace_directory(target) as temporary:
        write_model_directory(temporary, described, tensors)
        vocabulary = [*tokenizer.vocabulary, *words]
        WordPieceTokenizer(vocabulary, tokenizer.lowercase).save_pretrained(temporary)
    return list(words)
