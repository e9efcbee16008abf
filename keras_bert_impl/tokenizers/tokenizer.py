"""Base class of all tokenizers, which convert texts to token ids and model inputs."""

import abc
import copy
import functools
import hashlib
import inspect
import json
import operator
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.hub import local_directory
from keras_bert_impl.tokenizers.added_tokens import AddedToken, as_added_tokens
from keras_bert_impl.tokenizers.graphs import graph_of_ids, graph_of_offsets
from keras_bert_impl.tokenizers.inputs import as_bytes, as_strings, pack_segments, segments
from keras_bert_impl.tokenizers.row_files import kind_of
from keras_bert_impl.tokenizers.word_cache import WordCache, suits
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import first_guesses, known_arguments

_CLASSES: dict[str, type["Tokenizer"]] = {}  # kind -> class; subclasses register themselves


@first_guesses("Tokenizer")
class Tokenizer(abc.ABC):
    """Base class of tokenizers, which convert texts to token ids and model inputs.

    Use `Tokenizer.from_pretrained` to load a tokenizer. Tokenizers can be called eagerly and in any
    graph.

    The constructor of a subclass stores each argument in an attribute with the name of the
    argument, calls `_set_vocabulary`, and sets `_split` to a function that splits a string tensor
    [batch] into words. A subclass also implements `_split_into_subwords`.

    Attributes:
        kind: Name of the algorithm. The fingerprint depends on this name.
        num_separators: Number of `sep_id` tokens between the texts of a pair.
        segment_of_second: The segment id of the second text of a pair.
        word_breaks: ASCII characters that are always separate words. If texts are split at these
            characters and at spaces, `tokenize_words` tokenizes the parts.
        later_settings: Arguments added in later versions, with the values that keep the earlier
            behavior. With these values, the fingerprint is the same as in earlier versions.
    """

    kind: str
    _read: Callable[[Path], dict[str, Any]]  # reads the arguments from a directory
    _write: Callable  # writes the arguments to a directory
    special_tokens: tuple[str, ...]  # padding, unknown, first, separator and mask token
    num_separators: int = 1
    segment_of_second: int = 1
    word_breaks: str = ""
    later_settings: dict[str, Any] = {}
    vocabulary: list[str]
    added_tokens: list[AddedToken]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        _CLASSES[cls.kind.lower()] = cls

    @classmethod
    @known_arguments("Tokenizer.from_pretrained")
    def from_pretrained(cls, name_or_path: str | Path) -> "Tokenizer":
        """Loads a tokenizer of this class; `Tokenizer.from_pretrained` loads any kind.

        Args:
            name_or_path: A name that `hub.local_directory` accepts, or a directory with
                `tokenizer_config.json` and the tokenizer's files: `tokenizer.json`, `vocab.txt`
                (WordPiece), `vocab.json` and `merges.txt` (byte-level BPE or FlauBERT), or
                `spiece.model` or `sentencepiece.bpe.model` (SentencePiece). If no file contains
                `do_lower_case` of a WordPiece tokenizer, the value is inferred from the name or the
                vocabulary and logged.

        Returns:
            A `WordPieceTokenizer`, `ByteLevelBPETokenizer`, `SentencePieceTokenizer` or
            `MosesBPETokenizer`.

        Raises:
            InputError: There is no tokenizer, its kind or one of its settings is not supported, or
                a file is damaged.
        """
        directory = local_directory(name_or_path)
        if cls is Tokenizer:
            cls = _CLASSES[kind_of(directory).lower()]
        settings = cls._read(directory)
        try:
            return cls(**settings)
        except InputError as error:
            raise InputError(f"{directory}: {error}") from error

    def _set_vocabulary(self, vocabulary, added_tokens):
        self.added_tokens = as_added_tokens(added_tokens)
        self.vocabulary = list(vocabulary)
        self._ids_of = {token: i for i, token in enumerate(self.vocabulary) if token}
        for token in self.added_tokens:
            if self._ids_of.setdefault(token.content, len(self.vocabulary)) == len(self.vocabulary):
                self.vocabulary.append(token.content)
        self.added_tokens.sort(key=lambda token: self._ids_of[token.content])
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = map(
            self.token_to_id, self.special_tokens
        )

    @property
    def can_be_cut(self) -> bool:
        """Whether a text can be truncated at a space without changes to earlier tokens."""
        return not any(re.search(r"\s", token.content.lstrip()) for token in self.added_tokens)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, including special and added tokens."""
        return len(self.vocabulary)

    def __len__(self) -> int:
        return self.vocabulary_size

    def add_tokens(self, tokens: Iterable[Any]) -> "Tokenizer":
        """Returns a tokenizer with additional tokens, which are matched literally in texts.

        An encoder needs an embedding for each token. `vocabulary_augmentation.add_tokens` writes a
        model with the tokens and their embeddings.

        Args:
            tokens: str, `AddedToken`, dicts of its fields or `tokenizers.AddedToken`. Tokens
                missing from the vocabulary get the next ids. If a token was already added, the new
                definition replaces the old definition.

        Returns:
            A tokenizer of the same class; `self` does not change.

        Raises:
            InputError: An entry is not a token, or a token occurs twice.

        Example:
            tokenizer.add_tokens(["[E1]", "[/E1]"]).tokenize(["[E1]Paris[/E1]"])
        """
        new = {token.content: token for token in as_added_tokens(tokens)}
        old = {token.content: token for token in self.added_tokens}
        settings = self.get_config() | {"added_tokens": [*(old | new).values()]}
        return type(self)(**settings)

    @known_arguments("Tokenizer.tokenize")
    def tokenize(self, texts: Any) -> tf.RaggedTensor:
        """Converts texts to token ids, without [CLS] and [SEP].

        Args:
            texts: list of str, or string tensor [batch]. A single str is treated as a list of one
                text.

        Returns:
            int32 `tf.RaggedTensor` [batch, (tokens)].
        """
        if self.word_breaks and tf.executing_eagerly() and not tf.is_tensor(texts):
            texts = as_bytes(texts)
            if suits(texts):
                return self._word_cache.ragged(texts)
        return self._tokenize(as_strings(texts))

    def tokenize_with_offsets(
        self, texts: Any
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts texts to token ids and offsets.

        Args:
            texts: list of str, or string tensor [batch].

        Returns:
            (ids, starts, ends): int32 `tf.RaggedTensor`s [batch, (tokens)]. A token covers
            `text[start:end]`, in characters (code points) of the input text. If a character becomes
            several tokens, all of them have the offsets of this character.
        """
        return self._with_offsets(as_strings(texts))

    def words(self, texts: tf.Tensor) -> tf.Tensor:
        """Splits texts into words, which are tokenized separately. Can be called in any graph.

        Args:
            texts: string tensor [batch].

        Returns:
            string tensor [words]: the words of all texts, without special tokens.
        """
        raise NotImplementedError

    def word_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Converts words to token ids, int32 `tf.RaggedTensor` [words, (tokens)].

        Args:
            words: string tensor, the result of `words`, with at least one word.
        """
        raise NotImplementedError

    def word_starts(self, token_ids: tf.Tensor) -> tf.Tensor:
        """Returns whether each token begins a word.

        In WordPiece, each punctuation mark is a word. In the other tokenizers, words are separated
        by spaces.

        Args:
            token_ids: int32 tensor [batch, length].

        Returns:
            bool tensor [batch, length]. The values of special tokens, and of a token directly after
            a special token, are undefined.
        """
        return tf.gather(self._begins_word, token_ids)

    @functools.cached_property
    def _begins_word(self):
        return np.array([self._is_word_start(token) for token in self.vocabulary])

    def _is_word_start(self, token):
        raise NotImplementedError

    @functools.cached_property
    def _tokenize(self):
        return graph_of_ids(self._split, self._split_into_subwords)

    @functools.cached_property
    def _word_cache(self):
        return WordCache(self.tokenize_words, self.word_breaks)

    @functools.cached_property
    def _with_offsets(self):
        return graph_of_offsets(self._split, self._split_into_subwords, self._trim_spaces)

    @abc.abstractmethod
    def _split_into_subwords(self, words):
        """Splits words into tokens. See the argument `subwords` of `graph_of_offsets`."""

    def _trim_spaces(self, ids, starts, ends):
        """Removes white space from the spans of tokens.

        Overridden if tokens may contain white space.
        """
        return starts, ends

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, for `.keras` files."""
        names = inspect.signature(type(self)).parameters
        added = {"added_tokens": [token.setting for token in self.added_tokens]}
        return {name: getattr(self, name) for name in names} | added

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Tokenizer":
        """Creates a tokenizer from the result of `get_config`."""
        return cls(**config)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all settings that affect tokenization."""
        settings = {"kind": self.kind, **self.get_config()}
        settings.pop("segment_of_second", None)  # This setting does not change the tokens.
        for name, value in self.later_settings.items():
            if settings[name] == value:
                del settings[name]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        short = ((name, repr(value)) for name, value in self.get_config().items())
        settings = ", ".join(f"{name}={text}" for name, text in short if len(text) < 40)
        return f"<{type(self).__name__} of {len(self.vocabulary):,} tokens: {settings}>"

    def save_pretrained(self, directory: str | Path, config: Any = None) -> None:
        """Writes files for `from_pretrained` and `transformers.AutoTokenizer`.

        The files are tokenizer_config.json and, depending on the kind, tokenizer.json,
        special_tokens_map.json and the vocabulary. `transformers` returns the same ids.

        Args:
            directory: Created if needed; other files in the directory are kept.
            config: The `EncoderConfig` of the model in the directory. `transformers` then truncates
                to its `max_length`. If the model has a single segment, `transformers` returns only
                segment id 0.
        """
        settings, entries = self.get_config(), {}
        if config is not None:
            entries = {"model_max_length": config.max_length}
            settings |= {} if config.has_pair_segments else {"segment_of_second": 0}
        self._write(directory, settings, **entries)

    @known_arguments("Tokenizer.__call__")
    def __call__(
        self, texts: Any, length: int | None = None, multiple_of: int = 1
    ) -> dict[str, tf.Tensor]:
        """Converts a batch of texts or text pairs to model inputs.

        Args:
            texts: A list of str and (first, second) tuples; a string tensor [batch]; or a tuple of
                two lists or tensors (first texts, second texts). Tensors also work in `tf.data` and
                `tf.function`.
            length: Sequence length: longer texts are truncated (the longer segment first), and
                shorter texts are padded. Default: the length of the longest text.
            multiple_of: If `length` is None, the sequence length is rounded up to a multiple of
                this number, so that a model is compiled for few shapes.

        Returns:
            dict of int32 tensors [batch, length]: `token_ids`, `segment_ids`, `padding_mask`.

        Raises:
            InputError: An entry is not a text, the numbers of first and second texts differ, or
                `length` is too small for the special tokens.

        Example:
            tokenizer(["a text", ("a question", "a passage")], length=16)
        """
        if length is not None and not isinstance(length, (int, np.integer)):
            raise InputError(
                f"length must be an int. Received: {length!r:.40}. For pairs of texts, write "
                "tokenizer((questions, contexts))."
            )
        first, second, is_pair = segments(texts)
        second = None if second is None else self.tokenize(second)
        return self.pack(
            self.tokenize(first), second, is_pair=is_pair, length=length, multiple_of=multiple_of
        )

    def pack(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None, **how: Any
    ) -> dict[str, tf.Tensor]:
        """Converts ids without special tokens to model inputs; see `pack_segments`."""
        return pack_segments(first, second, **self.packing, **how)

    @property
    def packing(self) -> dict[str, int]:
        """The settings of `pack_segments` that depend on the tokenizer, keyed by name."""
        names = ("cls_id", "sep_id", "pad_id", "num_separators", "segment_of_second")
        return {name: getattr(self, name) for name in names}

    def with_one_segment(self) -> "Tokenizer":
        """Returns a copy for a model with a single segment: all segment ids are 0."""
        tokenizer = copy.copy(self)
        tokenizer.segment_of_second = 0
        return tokenizer

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token in the vocabulary; for a duplicate token, the last id.

        Raises:
            InputError: The vocabulary lacks the token.
        """
        if not isinstance(token, str) or token not in self._ids_of:
            raise InputError(f"the vocabulary lacks {token!r:.60}.")
        return self._ids_of[token]

    def __reduce__(self):
        # Graphs can be neither copied nor pickled. A copy traces its graphs again.
        return type(self).from_config, (self.get_config(),)

    def detokenize(self, ids: Any, skip_special_tokens: bool | None = None) -> str | list[str]:
        """Converts token ids to text, like `decode` in `transformers`.

        Args:
            ids: list or array [tokens] for one text; list, array or `tf.RaggedTensor` [batch,
                (tokens)] for a list of texts.
            skip_special_tokens: Whether to drop all special tokens, including added ones. By
                default, only padding and the tokens at the start and end of segments are dropped.

        Raises:
            InputError: An id is not in the vocabulary.
        """
        if tf.is_tensor(ids) or isinstance(ids, tf.RaggedTensor):
            ids = ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids.numpy()
        if isinstance(ids, (str, bytes, dict)) or not hasattr(ids, "__len__"):
            raise InputError(f"expected a list of token ids. Received: {ids!r:.60}")
        ids = list(ids)
        if ids and np.ndim(ids[0]):
            texts = [self.detokenize(row, skip_special_tokens) for row in ids]
            return texts  # type: ignore[return-value]  # each row gives a str
        if skip_special_tokens is None:
            left_out = {self.pad_id, self.cls_id, self.sep_id}
        else:
            left_out = self._special_ids if skip_special_tokens else set()
        return self._join([self.id_to_token(i) for i in ids if i not in left_out])

    @property
    def _special_ids(self):
        added = [token.content for token in self.added_tokens if token.special]
        return {self.token_to_id(token) for token in (*self.special_tokens, *added)}

    @abc.abstractmethod
    def _join(self, tokens):
        """Joins tokens to a text."""

    def id_to_token(self, token_id: int) -> str:
        """Returns the token with this id in the vocabulary."""
        try:
            token_id = operator.index(token_id)
        except TypeError as error:
            raise InputError(f"token ids must be integers. Received: {token_id!r:.40}") from error
        if not 0 <= token_id < len(self.vocabulary):
            raise InputError(
                f"token id {token_id} is not in the vocabulary of {len(self.vocabulary)} tokens."
            )
        return self.vocabulary[token_id]
