"""What every tokenizer does: texts to ids, ids to rows of features, reading the right kind."""

import abc
import copy
import functools
import hashlib
import json

import numpy as np
import tensorflow as tf

from keras_bert_impl.errors import InputError
from keras_bert_impl.hub import local_directory
from keras_bert_impl.tokenizers.files import kind_of
from keras_bert_impl.tokenizers.packing import pack_segments


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
    """

    num_separators = 1
    segment_of_second = 1
    word_breaks = ""

    @staticmethod
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
        from keras_bert_impl.tokenizers.byte_level_bpe import ByteLevelBPETokenizer
        from keras_bert_impl.tokenizers.moses import MosesBPETokenizer
        from keras_bert_impl.tokenizers.sentencepiece import SentencePieceTokenizer
        from keras_bert_impl.tokenizers.wordpiece import WordPieceTokenizer

        kinds = {
            "WordPiece": WordPieceTokenizer,
            "byte-level BPE": ByteLevelBPETokenizer,
            "SentencePiece": SentencePieceTokenizer,
            "Moses BPE": MosesBPETokenizer,
        }
        directory = local_directory(name_or_path)
        return kinds[kind_of(directory)].from_pretrained(directory)

    @property
    def vocabulary_size(self):
        """Number of tokens, special ones included."""
        return len(self.vocabulary)

    def tokenize(self, texts):
        """Ids of the pieces of each text, without the tokens that begin and end a row.

        Args:
            texts: list of str, or string tensor [batch].

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
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    @abc.abstractmethod
    def save_pretrained(self, directory):
        """Writes the files that `from_pretrained` and `transformers` read."""

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
        first, second, is_pair = _segments(texts)
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

    def _without_frame(self, ids):
        """Pieces of one sequence of ids, without padding and what begins and ends a row."""
        left_out = {self.pad_id, self.cls_id, self.sep_id}
        return [self.id_to_token(int(i)) for i in ids if int(i) not in left_out]

    def id_to_token(self, token_id):
        """The piece with this id, as it stands in the vocabulary."""
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


def as_strings(texts):
    """A string tensor [batch] of a list of str or bytes, or of a tensor of strings."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"expected a list of texts, got one text; give [{texts!r:.40}]")
    if not tf.is_tensor(texts):
        texts = [_as_bytes(text, position) for position, text in enumerate(texts)]
        return tf.constant(texts, tf.string, shape=[len(texts)])
    if texts.dtype != tf.string or texts.shape.rank != 1:
        raise InputError(
            f"expected a string tensor of shape [batch], got {texts.dtype.name} {texts.shape}."
        )
    return texts


def _as_bytes(text, position):
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InputError(f"text {position} is no string but {type(text).__name__}: {text!r:.60}")
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair is no character: U+FFFD, as in UTF-8
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _segments(texts):
    """First and second segments as string tensors, and which rows have a second one."""
    if isinstance(texts, tuple):
        if len(texts) != 2:
            raise InputError(f"a tuple is a pair of segments, got {len(texts)} members.")
        first, second = as_strings(texts[0]), as_strings(texts[1])
        if not first.shape.is_compatible_with(second.shape):
            raise InputError(f"{first.shape[0]} first segments but {second.shape[0]} second ones.")
        return first, second, None
    if tf.is_tensor(texts) or isinstance(texts, (str, bytes)):
        return as_strings(texts), None, None
    texts = list(texts)
    is_pair = [isinstance(text, tuple) for text in texts]
    if not any(is_pair):
        return as_strings(texts), None, None
    for position, text in enumerate(texts):
        if is_pair[position] and len(text) != 2:
            raise InputError(f"text {position} is a tuple of {len(text)}; a pair has two segments.")
    pairs = [text if pair else (text, "") for text, pair in zip(texts, is_pair)]
    first, second = zip(*pairs)
    return as_strings(list(first)), as_strings(list(second)), tf.constant(is_pair)


def per_text(pieces, words):
    """Regroups a ragged [words, (pieces)] to [texts, (pieces)].

    Args:
        pieces: `tf.RaggedTensor`.
        words: has `texts`, int64 [texts + 1], where each text begins among the words.
    """
    splits = tf.gather(pieces.row_splits, words.texts)
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)
