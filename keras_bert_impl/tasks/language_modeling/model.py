"""`MaskedLM`: masked-token prediction and pseudo-perplexity."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.blocks import UndefinedScoresError
from keras_bert_impl.data.tables.user_input import is_one_text
from keras_bert_impl.layers import GatherPositions
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import check_sees_both_sides, masked_lm_head, with_global_mask
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.tasks.base.feature_rows import task_inputs
from keras_bert_impl.tasks.base.fitting import outputs_of_batch
from keras_bert_impl.tasks.base.keras_losses import Outputs
from keras_bert_impl.tasks.language_modeling.base import LanguageModel, Perplexity
from keras_bert_impl.tasks.language_modeling.masked_batches import EVALUATION, RowMasks
from keras_bert_impl.tasks.language_modeling.pseudo_perplexity import pseudo_perplexity
from keras_bert_impl.tasks.language_modeling.signature import FillingSignatures, MaskedLMNetwork
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.first_guesses import first_guesses
from keras_bert_impl.utils.settings import Fraction, PositiveInt, check

_ROWS, _MASKS = 32, 64  # maximum rows and masks per batch


class Filling(NamedTuple):
    """A predicted token for a mask.

    Attributes:
        token: entry of the vocabulary.
        score: probability.
    """

    token: str
    score: float


@first_guesses("MaskedLM")
@keras.saving.register_keras_serializable("keras_bert_impl")
class MaskedLM(LanguageModel):
    """An encoder with a masked language modeling head.

    See `RawTextTrainer` for the inputs of `fit` and `evaluate`; texts have no labels. Tokens of
    each text are masked and predicted. Masks differ in each epoch; `evaluate` uses fixed masks. The
    loss is the mean over the masked tokens. For pre-training on a corpus, see `pretrain`.

    The network takes `FEATURES` and `masked_positions`, int32 `[batch, predictions]`, and returns
    float32 logits `[batch, predictions, vocabulary]`. `predict` takes a dict of these features; to
    predict the masks in texts, call `fill`. If inputs are features, labels are int32 `[batch,
    predictions]`, -100 for positions that are not predicted.

    Args:
        max_length: texts are truncated to this number of tokens. Default: the encoder's maximum.
        mask_rate: float in (0, 1). Fraction of the tokens that `fit` and `evaluate` mask.
        mask_unit: masking unit: `"token"`, `"word"`, `"ngram"` or `"span"`.

    Raises:
        InputError: the encoder is causal (left to right).

    Source: Devlin et al., "BERT", section 3.1.

    Example:
        model = MaskedLM.from_pretrained("path/to/model")
        model.fit(texts, epochs=3)
        model.fill(["Paris is the [MASK] of France."], top_k=3)
        model.fill(["The film was [MASK]."], candidates=["good", "bad"])
    """

    network = MaskedLMNetwork
    pipeline_tag = "fill-mask"
    example_call = ".fill(['This is a {mask}.'])"
    has_masked_losses = True
    signature_settings = ("top_k",)
    settings = ("mask_rate", "mask_unit")

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        mask_rate: Fraction = 0.15,
        mask_unit: str = "token",
        name: str | None = None,
    ) -> None:
        check_sees_both_sides(encoder.config, "masked language modeling")
        inputs = task_inputs()
        sequence = encoder(with_global_mask(encoder, inputs, None))["sequence_output"]
        inputs["masked_positions"] = keras.Input((None,), dtype="int32", name="masked_positions")
        gather = GatherPositions(dtype=encoder.dtype_policy, name="gather")
        logits = masked_lm_head(encoder)(gather(sequence, inputs["masked_positions"]))
        max_length = encoder.config.max_length if max_length is None else max_length
        super().__init__(encoder, tokenizer, inputs, logits, max_length=max_length, name=name)
        self.head = "masked_lm"
        self.outputs_are = Outputs(num_classes=encoder.config.vocabulary_size)
        self.mask_rate = mask_rate
        self.mask_unit = mask_unit
        self._masks = RowMasks(tokenizer, Masking(mask_unit, mask_rate), max_length)

    # === Training ===

    def completed(
        self, batches: tf.data.Dataset, first_batch: tf.Variable | None = None
    ) -> tf.data.Dataset:
        if "masked_positions" in batches.element_spec[0]:
            return batches
        seed = self.compile_arguments()["seed"]
        return self._masks.of_batches(
            batches, seed, EVALUATION if first_batch is None else first_batch
        )

    def completed_dataset(self, dataset: tf.data.Dataset, is_training: bool) -> tf.data.Dataset:
        x, _, _ = keras.utils.unpack_x_y_sample_weight(dataset.element_spec)
        if isinstance(x, dict) and "masked_positions" in x:
            return dataset
        encoded = self.encoded_dataset(dataset)
        seed, first = self.compile_arguments()["seed"], None if is_training else EVALUATION
        return self._masks.of_batches(encoded, seed, first)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        """Returns the logits for features with `masked_positions`; for texts see `fill`."""
        if not isinstance(x, (dict, tf.data.Dataset)):
            raise InputError(
                "predict takes features; to fill in the masks of texts, call model.fill(texts)."
            )
        return super().predict(x, *args, **kwargs)

    def encoder_call(self, example: Any) -> tuple[Any, Callable[[dict], Any]]:
        rows, _ = self.rows([example])
        first = {"masked_positions": np.zeros([1, 1], "int32")}
        return rows, lambda features: self({**features, **first})

    # === Masks of texts ===

    def fill(self, texts: Any, top_k: int = 5, candidates: list[str] | None = None) -> list:
        """Predicts the most likely tokens for each mask.

        Args:
            texts: see `RawTextTrainer`. Each text must contain the tokenizer's mask token (`[MASK]`
                or `<mask>`) at least once. A single text returns a single result.
            top_k: maximum number of tokens per mask.
            candidates: tokens to choose from: vocabulary entries, or words that are a single token.
                The scores are still probabilities over the whole vocabulary. Default None: all
                tokens.

        Returns:
            For each text, a list with one list per mask: up to `top_k` `Filling`s, most likely
            first. Each mask is filled independently of the other masks.

        Raises:
            InputError: a text has no mask within `max_length`, a candidate is not a single token,
                or a score is NaN.
        """
        top_k = check("top_k", top_k, PositiveInt)
        fillings = self._fill(self.as_texts(texts), top_k, candidates)
        return fillings[0] if is_one_text(texts) else fillings

    def _fill(self, texts, top_k, candidates):
        if not texts:
            return []
        ids = self._find_candidate_ids(candidates)
        tokenized = self.tokenized(texts)
        splits = tokenized.row_splits.numpy()
        positions = np.flatnonzero(tokenized.token_ids.numpy() == self.tokenizer.mask_id)
        # Positions of the masks in each text.
        ends = np.searchsorted(positions, splits)
        per_text = [positions[ends[i] : ends[i + 1]] - splits[i] for i in range(len(texts))]
        mask = self.tokenizer.id_to_token(self.tokenizer.mask_id)
        for row, positions in enumerate(per_text):
            if not len(positions):
                raise InputError(
                    f"text {row} has no {mask} within its first {self.max_length} tokens: "
                    f"{texts[row]!r:.60}"
                )
        fillings = [None] * len(texts)
        for rows in _batch_masks(list(map(len, per_text)), tokenized.lengths.numpy()):
            scores = self._score_masks(tokenized, rows, [per_text[row] for row in rows])
            for row, text_scores in zip(rows, scores):
                masks = range(len(per_text[row]))
                fillings[row] = [
                    self._select_best(text_scores[slot], ids, top_k, row) for slot in masks
                ]
        return fillings

    def _score_masks(self, tokenized, rows, per_text):
        """Returns token probabilities, float32 [rows, masks, vocabulary]."""
        features = tokenized.features(np.array(rows))
        features = {name: np.asarray(feature) for name, feature in features.items()}
        slots = max(map(len, per_text))
        features["masked_positions"] = np.stack(
            [np.pad(positions, (0, slots - len(positions))) for positions in per_text]
        ).astype("int32")
        return keras.ops.convert_to_numpy(keras.ops.softmax(outputs_of_batch(self, features)))

    def signatures(self, top_k: int = 5) -> FillingSignatures:
        """Returns the serving signatures of the exported model.

        Args:
            top_k: number of tokens per mask.
        """
        return FillingSignatures(self, self.encoder, self.tokenizer, self.max_length, top_k)

    def _find_candidate_ids(self, candidates):
        if candidates is None:
            return np.arange(self.tokenizer.vocabulary_size)
        if isinstance(candidates, str) or not candidates:
            raise InputError(f"candidates must be a list of words. Received: {candidates!r:.60}")
        return np.unique([self._find_candidate_id(word) for word in candidates])

    def _find_candidate_id(self, word):
        if word in self._ids_of_tokens:
            return self._ids_of_tokens[word]
        ids = self.tokenizer.tokenize([word])[0].numpy()
        if len(ids) != 1 or ids[0] == self.tokenizer.unk_id:
            tokens = [self.tokenizer.id_to_token(int(i)) for i in ids]
            raise InputError(
                f"the candidate {word!r} must be a single token. Its tokens are "
                f"{listed(tokens) or 'none'}."
            )
        return int(ids[0])

    @functools.cached_property
    def _ids_of_tokens(self):
        return {token: i for i, token in enumerate(self.tokenizer.vocabulary)}

    def _select_best(self, scores, ids, top_k, row):
        if np.isnan(scores).any():
            raise UndefinedScoresError("text", row)
        ids = ids[np.argsort(-scores[ids], kind="stable")][:top_k]
        return [Filling(self.tokenizer.id_to_token(int(i)), float(scores[i])) for i in ids]

    def pseudo_perplexity(self, texts: Any, batch_size: int = 32) -> Perplexity:
        """Computes the pseudo-perplexity of a corpus.

        Each token of a text, except special tokens, is masked once. The pseudo-log-likelihood of
        the text is the sum of the log probabilities of the original tokens.

        Args:
            texts: see `RawTextTrainer`, but without pairs.
            batch_size: number of masked sequences per batch; a text of n tokens has n sequences.

        Raises:
            InputError: a text is too long for the model, or there are no tokens.

        Source: Salazar et al. 2020, "Masked Language Model Scoring".

        Example:
            model.pseudo_perplexity(["Paris is the capital of France."]).perplexity
        """
        batch_size = check("batch_size", batch_size, PositiveInt)
        return pseudo_perplexity(self, self.as_texts(texts), batch_size)


def _batch_masks(counts, lengths):
    """Sorts texts by length; yields the indices of the texts in each batch.

    Args:
        counts: list of int [texts], number of masks.
        lengths: int array [texts], number of tokens.
    """
    batch, most = [], 0
    for text in np.argsort(lengths, kind="stable").tolist():
        most = max(most, counts[text])
        if batch and (len(batch) == _ROWS or (len(batch) + 1) * most > _MASKS):
            yield batch
            batch, most = [], counts[text]
        batch.append(text)
    yield batch
