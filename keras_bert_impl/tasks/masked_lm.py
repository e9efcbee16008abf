"""Fills in masked words, and says how likely a text is word by word."""

import dataclasses
import functools

import keras
import numpy as np

from keras_bert_impl.errors import InputError, listed
from keras_bert_impl.interop import (
    encoder_tensors,
    head_tensors,
    open_model,
    read_encoder_config,
    tied_tensors,
)
from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.models.serialization import deserialize_parts
from keras_bert_impl.models.weights import check_tied, load_weights, values_deferred
from keras_bert_impl.serving import export_saved_model
from keras_bert_impl.serving.fillings import FillingSignatures
from keras_bert_impl.tasks.batching import tokenize_texts
from keras_bert_impl.tasks.decisions import UndefinedScoresError
from keras_bert_impl.tasks.pseudo_perplexity import pseudo_perplexity
from keras_bert_impl.tokenizers import Tokenizer

_ROWS, _MASKS = 32, 64  # of a batch: each mask has a score for every piece of the vocabulary


@dataclasses.dataclass(frozen=True)
class Filling:
    """A word piece for a mask.

    Attributes:
        token: str, the piece as it stands in the vocabulary.
        score: float, its probability.
    """

    token: str
    score: float


@keras.saving.register_keras_serializable("keras_bert_impl")
class MaskedLM(keras.Model):
    """An encoder with the head of the masked language model.

    Args:
        encoder: `Encoder`.
        tokenizer: `Tokenizer`.

    Call arguments:
        features: dict of int32 `token_ids`, `segment_ids`, `padding_mask` `[batch, length]` and
            `masked_positions` `[batch, predictions]`.

    Returns:
        float32 logits `[batch, predictions, vocabulary]`.

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        model = MaskedLM.from_pretrained("run/model")
        model.fill(["Paris is the [MASK] of France."], top_k=3)
        model.fill(["Paris is [MASK]."], candidates=["big", "small"])
    """

    def __init__(self, encoder, tokenizer, name="masked_lm_model"):
        names = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        sequence = encoder({name: inputs[name] for name in names[:3]})["sequence_output"]
        gather = GatherPositions(dtype=encoder.dtype_policy, name="gather")
        logits = masked_lm_head(encoder)(gather(sequence, inputs["masked_positions"]))
        super().__init__(inputs=inputs, outputs=logits, name=name)
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.max_length = encoder.config.max_length

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(
            **deserialize_parts(config, "encoder", "tokenizer", custom_objects=custom_objects)
        )

    @classmethod
    def from_pretrained(cls, name_or_path, dtype=None):
        """Loads a model directory that has a masked language model's head, and its tokenizer.

        Args:
            name_or_path: str or `Path`: a directory or a name; see `interop.open_model`.
            dtype: Keras dtype policy.

        Raises:
            InputError: a file or tensor is missing or damaged; names it.
        """
        source = open_model(name_or_path)
        config = read_encoder_config(source)
        # A head with new weights would fill in noise.
        head = head_tensors(config, "masked_lm")
        head = [dataclasses.replace(name, optional=False) for name in head]
        tokenizer = Tokenizer.from_pretrained(source.path)
        with values_deferred():
            encoder = Encoder(dataclasses.replace(config, use_pooler=False), dtype=dtype)
            model = cls(encoder, tokenizer)
        check_tied(source, tied_tensors(config))
        load_weights(model, source, encoder_tensors(encoder.config) + head)
        return model

    def fill(self, texts, top_k=5, candidates=None):
        """The likeliest pieces for every mask.

        Args:
            texts: list of str, each with one or more of the tokenizer's mask tokens (`[MASK]`,
                or `<mask>`).
            top_k: int. Pieces for a mask, at most.
            candidates: list of str, the pieces to choose from, as they stand in the vocabulary or
                as words that are one piece. Scores remain probabilities among all pieces. Default
                None: all.

        Returns:
            list (a text) of lists (a mask) of up to `top_k` `Filling`s, likeliest first. Each mask
            is filled as if the others remained.

        Raises:
            InputError: a text without a mask within the model's length, a candidate that is not
                one piece, or scores that are NaN.
        """
        if isinstance(texts, str) or not texts:
            raise InputError(f"fill takes a list of texts. Received: {texts!r:.60}")
        ids = self._candidate_ids(candidates)
        limit = self.max_length
        pack = functools.partial(self._features, limit=limit)
        tokenized = tokenize_texts(texts, self.tokenizer, limit, pack=pack)
        splits = tokenized.row_splits.numpy()
        places = np.flatnonzero(tokenized.token_ids.numpy() == self.tokenizer.mask_id)
        # The places of the masks of each text among its tokens.
        ends = np.searchsorted(places, splits)
        per_text = [places[ends[i] : ends[i + 1]] - splits[i] for i in range(len(texts))]
        mask = self.tokenizer.id_to_token(self.tokenizer.mask_id)
        for row, positions in enumerate(per_text):
            if not len(positions):
                raise InputError(
                    f"text {row} has no {mask} within its first {limit} tokens: {texts[row]!r:.60}"
                )
        fillings = [None] * len(texts)
        for rows in _batches_of_masks(list(map(len, per_text)), tokenized.lengths.numpy()):
            scores = self._scores_of_masks(tokenized, rows, [per_text[row] for row in rows])
            for row, of_text in zip(rows, scores):
                masks = range(len(per_text[row]))
                fillings[row] = [self._best(of_text[slot], ids, top_k, row) for slot in masks]
        return fillings

    def _scores_of_masks(self, tokenized, rows, per_text):
        """float32 [rows, masks, vocabulary], the probabilities of the pieces for each mask."""
        features = tokenized.features(np.array(rows))
        features = {name: np.asarray(feature) for name, feature in features.items()}
        slots = max(map(len, per_text))
        features["masked_positions"] = np.stack(
            [np.pad(positions, (0, slots - len(positions))) for positions in per_text]
        ).astype("int32")
        return keras.ops.convert_to_numpy(keras.ops.softmax(self(features, training=False)))

    def signatures(self, top_k=5):
        """The `serving.signatures.Signatures` of what an exported model answers.

        Args:
            top_k: int. Pieces for a mask.
        """
        return FillingSignatures(self, self.encoder, self.tokenizer, self.max_length, top_k)

    def export(self, directory, ids_only=False, top_k=5):
        """Writes a SavedModel that takes raw strings; see `serving.export_saved_model`.

        Args:
            directory: str or `Path`.
            ids_only: bool. Whether it takes token ids alone, and needs no `tensorflow_text`.
            top_k: int. Pieces for a mask.
        """
        export_saved_model(self.signatures(top_k), directory, ids_only)

    def _features(self, texts, limit):
        features = self.tokenizer(texts)
        return {name: value[:, :limit] for name, value in features.items()}

    def _candidate_ids(self, candidates):
        """int array, the ids of the pieces to choose from."""
        if candidates is None:
            return np.arange(self.tokenizer.vocabulary_size)
        if isinstance(candidates, str) or not candidates:
            raise InputError(f"candidates must be a list of words. Received: {candidates!r:.60}")
        return np.unique([self._candidate_id(word) for word in candidates])

    def _candidate_id(self, word):
        if word in self._ids_of_pieces:
            return self._ids_of_pieces[word]
        ids = self.tokenizer.tokenize([word])[0].numpy()
        if len(ids) != 1:
            pieces = [self.tokenizer.id_to_token(int(i)) for i in ids]
            raise InputError(
                f"the candidate {word!r} is not one piece but {listed(pieces) or 'none'}; a mask "
                "stands for one."
            )
        return int(ids[0])

    @functools.cached_property
    def _ids_of_pieces(self):
        return {piece: i for i, piece in enumerate(self.tokenizer.vocabulary)}

    def _best(self, scores, ids, top_k, row):
        if np.isnan(scores).any():
            raise UndefinedScoresError("text", row)
        ids = ids[np.argsort(-scores[ids], kind="stable")][:top_k]
        return [Filling(self.tokenizer.id_to_token(int(i)), float(scores[i])) for i in ids]

    def pseudo_perplexity(self, texts, batch_size=32):
        """How well each token of a corpus is guessed from all others.

        Each token of a text is masked in turn; the logarithms of the probabilities of what stood
        there add up to the pseudo-log-likelihood of the text. The special tokens that begin and
        end a row are not masked.

        Args:
            texts: list of str, the corpus.
            batch_size: int. Rows of a batch; a text of n tokens makes n of them.

        Returns:
            `PseudoPerplexity`.

        Raises:
            InputError: a text that is longer than the model allows, or no tokens at all.

        Source: Salazar et al. 2020, "Masked Language Model Scoring".

        Example:
            model.pseudo_perplexity(["Paris is the capital of France."]).perplexity
        """
        return pseudo_perplexity(self, texts, batch_size)


def _batches_of_masks(counts, lengths):
    """Iterator of lists of int, the texts of a batch; texts of about one length are together.

    Args:
        counts: list of int [texts], masks of each.
        lengths: int array [texts], tokens of each.
    """
    batch, most = [], 0
    for text in np.argsort(lengths, kind="stable").tolist():
        most = max(most, counts[text])
        if batch and (len(batch) == _ROWS or (len(batch) + 1) * most > _MASKS):
            yield batch
            batch, most = [], counts[text]
        batch.append(text)
    yield batch
