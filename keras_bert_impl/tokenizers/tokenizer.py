"""What every tokenizer does: texts to ids, ids to rows of features, reading the right kind."""

import abc
import copy
import functools
import hashlib
import json
import operator
import re

import numpy as np
import tensorflow as tf

from keras_bert_impl.first_guesses import first_guesses, known_arguments
from keras_bert_impl.hub import local_directory
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.tokenizers.added_tokens import as_added_tokens
from keras_bert_impl.tokenizers.loading import kind_of
from keras_bert_impl.tokenizers.packing import pack_segments
from keras_bert_impl.tokenizers.texts import as_strings, segments

_CLASSES = {}  # kind of tokenizer: its class, which adds itself


@first_guesses("Tokenizer")
class Tokenizer(abc.ABC):
    """Turns texts into rows of token ids, eagerly and in any graph.

    Subclasses set `vocabulary`, `pad_id`, `unk_id`, `cls_id`, `sep_id`, `mask_id`, and make the
    graphs `_tokenize` and `_with_offsets`. Use `Tokenizer.from_pretrained` to read one.

    Attributes:
        kind: str, a part of the fingerprint.
        num_separators: int, how often `sep_id` stands between two segments.
        segment_of_second: int, the segment id of the second segment.
        word_breaks: str, ASCII characters beside which, as beside spaces (U+0020), a text can be
            cut: its tokens are those of the parts, each tokenized alone, by `tokenize_words`, which
            a tokenizer with word breaks has. Empty where only whole texts have the right tokens.
        later_settings: dict of arguments that an earlier version did not have to what they then
            were; so the fingerprint of a tokenizer stays.
        added_tokens: list of `AddedToken`.
        can_be_cut: bool. Whether the tokens of the beginning of a text, up to a space between two
            letters, are the first of the text.
    """

    num_separators = 1
    segment_of_second = 1
    word_breaks = ""
    later_settings = {}

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        _CLASSES[cls.kind.lower()] = cls

    @staticmethod
    @known_arguments("Tokenizer.from_pretrained")
    def from_pretrained(name_or_path):
        """Reads the tokenizer of a model directory, whichever kind it is.

        Args:
            name_or_path: str or `Path`. A name, as `hub.local_directory` takes it, or a folder
                with `tokenizer.json`, or with `vocab.txt` (WordPiece), or `vocab.json` and
                `merges.txt` (byte-level BPE, or FlauBERT's), or `spiece.model` or
                `sentencepiece.bpe.model` (SentencePiece); and `tokenizer_config.json`.

        Returns:
            A `WordPieceTokenizer`, `ByteLevelBPETokenizer`, `SentencePieceTokenizer` or
            `MosesBPETokenizer`.

        Raises:
            InputError: there is no tokenizer, its kind or a setting is not supported, or a file
                is damaged; the message names it.
        """
        directory = local_directory(name_or_path)
        return _CLASSES[kind_of(directory).lower()].from_pretrained(directory)

    def _set_vocabulary(self, vocabulary, added_tokens):
        """Sets `vocabulary`, `added_tokens` and the ids of the special tokens.

        Args:
            vocabulary: list of str, the token of each id.
            added_tokens: iterable; those that it lacks get the next ids.
        """
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

    @classmethod
    def from_preset(cls, name_or_path):
        """`from_pretrained`, as KerasHub calls it."""
        return cls.from_pretrained(name_or_path)

    @property
    def can_be_cut(self):
        return not any(re.search(r"\s", token.content.lstrip()) for token in self.added_tokens)

    @property
    def vocabulary_size(self):
        """Number of tokens, special and added ones included."""
        return len(self.vocabulary)

    def __len__(self):
        return self.vocabulary_size

    def add_tokens(self, tokens):
        """A tokenizer with further tokens, which are found in texts as they are written.

        An encoder needs an embedding for each: `vocabulary_augmentation.add_tokens` writes a model
        with both.

        Args:
            tokens: list of str, `AddedToken`, dicts of its fields or `tokenizers.AddedToken`. Those
                that the vocabulary lacks get the next ids. A token that was added before is found as
                the new one says.

        Returns:
            A tokenizer of the same class; this one stays as it is.

        Raises:
            InputError: something is no token, or a token is given twice.

        Example:
            tokenizer.add_tokens(["[E1]", "[/E1]"]).tokenize(["[E1]Paris[/E1]"])
        """
        new = {token.content: token for token in as_added_tokens(tokens)}
        old = {token.content: token for token in self.added_tokens}
        settings = self.get_config() | {"added_tokens": [*(old | new).values()]}
        return type(self)(**settings)

    @known_arguments("Tokenizer.tokenize")
    def tokenize(self, texts):
        """Ids of the pieces of each text, without the tokens that begin and end a row.

        Args:
            texts: list of str, or string tensor [batch]; one str is a batch of one.

        Returns:
            int32 `tf.RaggedTensor` [batch, (tokens)].
        """
        return self._tokenize(as_strings(texts))

    def tokenize_with_offsets(self, texts):
        """Ids of the pieces of each text and where they stand in it.

        Args:
            texts: list of str, or string tensor [batch].

        Returns:
            (ids, starts, ends): int32 `tf.RaggedTensor`s [batch, (tokens)]; a piece stands in
            `text[start:end]`, counted in characters (code points) of the text as it was given.
            Pieces of one character each have its place.
        """
        return self._with_offsets(as_strings(texts))

    def words(self, texts):
        """The words that texts are cut into before these become pieces; in any graph.

        Args:
            texts: string tensor [batch].

        Returns:
            string tensor [words], of all texts; special tokens are no words.
        """
        raise NotImplementedError

    def word_ids(self, words):
        """Ids of the pieces of words, int32 `tf.RaggedTensor` [words, (pieces)].

        Args:
            words: string tensor, of `words`, one or more.
        """
        raise NotImplementedError

    def word_starts(self, token_ids):
        """Which pieces of a row begin a word.

        Words are what the vocabulary marks as such: for WordPiece, a punctuation mark is one; for
        the others, what stands between two spaces.

        Args:
            token_ids: int32 tensor [batch, length].

        Returns:
            bool tensor [batch, length]; what it says of special tokens, and of the first piece
            after one, is of no meaning.
        """
        return tf.gather(self._begins_word, token_ids)

    @functools.cached_property
    def _begins_word(self):
        """bool array [vocabulary], for kinds whose pieces show where a word begins."""
        return np.array([self._is_word_start(piece) for piece in self.vocabulary])

    def _is_word_start(self, piece):
        """bool. Whether this piece of the vocabulary begins a word."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def _tokenize(self):
        """`in_graph` function of a string tensor [batch]: what `tokenize` returns."""

    @property
    @abc.abstractmethod
    def _with_offsets(self):
        """The same for `tokenize_with_offsets`."""

    @abc.abstractmethod
    def get_config(self):
        """The arguments that it was made with, for `.keras` files."""

    @classmethod
    def from_config(cls, config):
        """A tokenizer of what `get_config` returned."""
        return cls(**config)

    @property
    def fingerprint(self):
        """sha256, in hex, of everything that decides how a text is tokenized."""
        settings = {"kind": self.kind, **self.get_config()}
        for name, value in self.later_settings.items():
            if settings[name] == value:
                del settings[name]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    @abc.abstractmethod
    def save_pretrained(self, directory):
        """Writes the files that `from_pretrained` and `transformers` read."""

    @known_arguments("Tokenizer.__call__")
    def __call__(self, texts, length=None, multiple_of=1):
        """Features of a batch of texts or pairs of texts.

        Args:
            texts: a list of str and of (first, second) tuples; or a string tensor [batch]; or a
                tuple of two of those, the first and the second segments. The latter two work
                inside `tf.data` and `tf.function` too.
            length: int: every row is cut (the longer segment first) or padded to this many
                tokens. Default None: rows are as long as the longest needs.
            multiple_of: int: without `length`, the length is rounded up to a multiple of this, so
                that a compiled model meets few shapes. Default 1.

        Returns:
            A dict of int32 tensors [batch, length]: `token_ids`, `segment_ids`, `padding_mask`.

        Raises:
            InputError: something is no text, or the two segments differ in number, or `length`
                has no room for the special tokens.

        Example:
            tokenizer(["a text", ("a question", "a passage")], length=16)
        """
        if length is not None and not isinstance(length, (int, np.integer)):
            raise InputError(
                f"length must be an int. Received: {length!r:.40}. For pairs of texts write "
                "tokenizer((questions, contexts))."
            )
        first, second, is_pair = segments(texts)
        second = None if second is None else self.tokenize(second)
        return self.pack(
            self.tokenize(first), second, is_pair=is_pair, length=length, multiple_of=multiple_of
        )

    def pack(self, first, second=None, **how):
        """Features of ids without the tokens that begin and end a row; see `pack_segments`."""
        return pack_segments(
            first,
            second,
            cls_id=self.cls_id,
            sep_id=self.sep_id,
            pad_id=self.pad_id,
            num_separators=self.num_separators,
            segment_of_second=self.segment_of_second,
            **how,
        )

    def with_one_segment(self):
        """A tokenizer whose second segments have the id 0, for models with one segment alone."""
        other = copy.copy(self)
        other.segment_of_second = 0
        return other

    def token_to_id(self, token):
        """The id of a token, as it stands in the vocabulary; of two equal ones the last.

        Args:
            token: str.

        Raises:
            InputError: the vocabulary does not have it.
        """
        if not isinstance(token, str) or token not in self._ids_of:
            raise InputError(f"the vocabulary lacks {token!r:.60}.")
        return self._ids_of[token]

    def __reduce__(self):
        # Graphs can be neither copied nor written; a copy makes its own.
        return type(self).from_config, (self.get_config(),)

    def detokenize(self, ids, skip_special_tokens=None):
        """The text of token ids, as `decode` of `transformers` returns it.

        Args:
            ids: list or array of int [tokens], for which a str is returned; or a list, array or
                `tf.RaggedTensor` of those [batch, (tokens)], for which a list of str is.
            skip_special_tokens: bool. Whether special tokens are left out, those added included.
                Default None: only padding and what begins and ends segments.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        if tf.is_tensor(ids) or isinstance(ids, tf.RaggedTensor):
            ids = ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids.numpy()
        if isinstance(ids, (str, bytes, dict)) or not hasattr(ids, "__len__"):
            raise InputError(f"expected a list of token ids. Received: {ids!r:.60}")
        ids = list(ids)
        if ids and np.ndim(ids[0]):
            return [self.detokenize(row, skip_special_tokens) for row in ids]
        if skip_special_tokens is None:
            left_out = {self.pad_id, self.cls_id, self.sep_id}
        else:
            left_out = self._special_ids if skip_special_tokens else ()
        return self._join([self.id_to_token(i) for i in ids if i not in left_out])

    @property
    def _special_ids(self):
        added = [token.content for token in self.added_tokens if token.special]
        return {self.token_to_id(token) for token in (*self.special_tokens, *added)}

    @abc.abstractmethod
    def _join(self, pieces):
        """str of a list of pieces."""

    def id_to_token(self, token_id):
        """The piece with this id, as it stands in the vocabulary."""
        try:
            token_id = operator.index(token_id)
        except TypeError as error:
            raise InputError(f"a token id must be an integer. Received: {token_id!r:.40}") from error
        if not 0 <= token_id < len(self.vocabulary):
            raise InputError(
                f"token id {token_id} is not in the vocabulary of {len(self.vocabulary)} tokens."
            )
        return self.vocabulary[token_id]


def in_graph(function):
    """A graph for batches of any size, on the CPU: its operations have no other home.

    Args:
        function: of a string tensor [batch].
    """

    def on_cpu(texts):
        with tf.device("CPU:0"):
            return function(texts)

    texts = tf.TensorSpec([None], tf.string, name="texts")
    with tf.init_scope():  # the first use may be inside of another graph
        return tf.function(on_cpu, autograph=False).get_concrete_function(texts)


def per_text(pieces, words):
    """Regroups a ragged [words, (pieces)] to [texts, (pieces)].

    Args:
        pieces: `tf.RaggedTensor`.
        words: has `texts`, int64 [texts + 1], where each text begins among the words.
    """
    splits = tf.gather(pieces.row_splits, words.texts)
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
