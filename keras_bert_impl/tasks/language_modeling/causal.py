"""`CausalLM`: text generation and perplexity with causal (left-to-right) language models."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.tables.user_input import is_one_text
from keras_bert_impl.layers.losses import cross_entropy
from keras_bert_impl.models.decoding import cache_signature, empty_cache, next_states
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.models.heads import masked_lm_head
from keras_bert_impl.pretraining.masking.token_masks import NO_LABEL
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.tasks.base.feature_rows import task_inputs
from keras_bert_impl.tasks.base.fitting import outputs_of_batch
from keras_bert_impl.tasks.base.keras_losses import Outputs
from keras_bert_impl.tasks.language_modeling.base import LanguageModel, Perplexity
from keras_bert_impl.tasks.language_modeling.sampling import Sampling
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import known_arguments
from keras_bert_impl.utils.settings import PositiveInt, check

_ROWS, _TOKENS = 32, 2048  # maximum rows and tokens per batch


@dataclasses.dataclass(frozen=True)
class Continuation:
    """Generated continuation of a prompt.

    Attributes:
        text: the new text, without the stop token.
        token_ids: ids of the new tokens, without the stop token.
        is_finished: whether a stop token ended the text.
    """

    text: str
    token_ids: list[int]
    is_finished: bool


@keras.saving.register_keras_serializable("keras_bert_impl")
class CausalLM(LanguageModel):
    """A causal encoder with a language modeling head, which predicts each next token.

    See `RawTextTrainer` for the inputs of `fit` and `evaluate`; texts have no labels. The loss is
    the mean over all tokens except the first of each row. For pre-training on a corpus, see
    `pretrain` with `objectives=["left_to_right"]`.

    The network takes `FEATURES` and returns float32 logits `[batch, length, vocabulary]` for the
    token after each position. If inputs are features, labels are int32 `[batch, length]`, -100 for
    positions that are not predicted.

    Args:
        max_length: texts are truncated to this number of tokens in training. Default: the encoder's
            maximum.

    Raises:
        InputError: the encoder is not causal, or has a prompt adapter.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.

    Example:
        model = CausalLM.from_pretrained("path/to/causal-model")
        model.generate(["The film was"], max_new_tokens=20)[0].text
        model.generate("The film was", temperature=0.8, top_p=0.95, seed=1).text
        model.perplexity(["The film was good."]).perplexity
    """

    pipeline_tag = "text-generation"
    example_call = ".generate(['This is a'])"

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        max_length: int | None = None,
        name: str | None = None,
    ) -> None:
        _check_causal(encoder)
        inputs = task_inputs()
        logits = masked_lm_head(encoder)(encoder(inputs)["sequence_output"])
        max_length = encoder.config.max_length if max_length is None else max_length
        super().__init__(encoder, tokenizer, inputs, logits, max_length=max_length, name=name)
        self.head = "left_to_right"
        self.outputs_are = Outputs(num_classes=encoder.config.vocabulary_size)
        self.step_function = None

    # === Training ===

    def completed(
        self, batches: tf.data.Dataset, first_batch: tf.Variable | None = None
    ) -> tf.data.Dataset:
        return batches.map(_label_next_tokens, num_parallel_calls=tf.data.AUTOTUNE)

    def completed_dataset(self, dataset: tf.data.Dataset, is_training: bool) -> tf.data.Dataset:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(dataset.element_spec)
        if isinstance(x, dict) and y is not None:
            return dataset
        return self.completed(self.encoded_dataset(dataset))

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        """Returns the logits for features; for texts see `generate` and `perplexity`."""
        if not isinstance(x, (dict, tf.data.Dataset)):
            raise InputError(
                "predict takes features; to continue texts, call model.generate(texts)."
            )
        return super().predict(x, *args, **kwargs)

    def task_config(self) -> dict[str, Any]:
        ends = {"bos_token_id": self.tokenizer.cls_id, "eos_token_id": self.tokenizer.sep_id}
        return super().task_config() | ends

    def export(self, filepath: Any, *args: Any, **settings: Any) -> None:
        """Raises `InputError`, because generation cannot be exported."""
        self.signatures()

    def signatures(self) -> Signatures:
        """Raises `InputError`; see `export`."""
        raise InputError(
            "a causal language model cannot be exported. Use save_pretrained(directory), and load "
            "the directory with transformers."
        )

    # === Generation ===

    @known_arguments("CausalLM.generate")
    def generate(
        self,
        texts: Any,
        max_new_tokens: int = 20,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: list[str] | None = None,
        seed: int = 0,
    ) -> Any:
        """Continues texts token by token.

        Keys and values of earlier tokens are cached, so each step computes only one token per text.

        Args:
            texts: see `RawTextTrainer`, but without pairs. A single text returns a single result.
                An empty text starts with the tokenizer's start token.
            max_new_tokens: maximum number of new tokens.
            temperature: divisor of the logits; 0 selects the most likely token.
            top_k: number of the most likely tokens to draw from. Default None: all.
            top_p: float in (0, 1]: draws from the most likely tokens whose probabilities add up to
                at least this value.
            stop: tokens that end a text: tokens of the vocabulary, or strings that are a single
                token, such as `"\n"` in GPT-2. Default: the tokenizer's separator, such
                as `[SEP]`; `[]` for none.
            seed: random seed. Each draw depends only on the seed, the index of the text and the
                position of the token.

        Returns:
            list of `Continuation`s.

        Raises:
            InputError: a setting is invalid, or a text with its new tokens is too long for the
                model.
        """
        count = check("max_new_tokens", max_new_tokens, PositiveInt)
        sampling = Sampling(temperature, top_k, top_p, seed)
        prompts = self._tokenize_texts(self.as_texts(texts), count, closes=False)
        if stop is None:
            stop = [self.tokenizer.id_to_token(self.tokenizer.sep_id)]
        stop = check("stop", [stop] if isinstance(stop, str) else stop, tuple[str, ...])
        ends = {self._stop_id(token) for token in stop}
        rows: dict[int, tuple] = {}
        for batch in _batch_by_length([len(prompt) + count for prompt in prompts]):
            ids = self._generate_batch(
                [prompts[text] for text in batch], batch, count, sampling, ends
            )
            rows |= zip(batch, ids)
        continuations = [
            self._make_continuation(prompt, *rows[text]) for text, prompt in enumerate(prompts)
        ]
        return continuations[0] if is_one_text(texts) else continuations

    def _stop_id(self, token):
        if token not in self.tokenizer.vocabulary:
            (ids,) = self.tokenizer.tokenize([token]).to_list()
            if len(ids) == 1 and ids[0] != self.tokenizer.unk_id:
                return ids[0]
        return self.tokenizer.token_to_id(token)

    def _generate_batch(self, prompts, texts, count, sampling, ends):
        """Returns the new token ids of each prompt, and whether a stop token was generated."""
        ids, mask = _pad_rows(prompts, self.tokenizer.pad_id)
        positions = np.tile(np.arange(ids.shape[1], dtype="int32"), (len(ids), 1))
        places = mask.sum(axis=1) - 1  # [rows], last token of each prompt
        cache, generated = empty_cache(self.encoder, len(ids)), []
        is_open = np.full(len(ids), True)
        for step in range(count):
            logits, cache = self._compute_next(ids, positions, mask, places, cache)
            logits = np.asarray(logits)[:, : self.tokenizer.vocabulary_size]
            next_ids = sampling.choose(logits, texts, step)
            generated.append(next_ids)
            is_open &= ~np.isin(next_ids, [*ends])
            if not is_open.any():
                break
            ids, places = next_ids[:, None].astype("int32"), np.zeros(len(ids), "int64")
            lengths = mask.sum(axis=1, keepdims=True, dtype="int32")
            positions = np.concatenate([positions, lengths], axis=1)
            mask = np.pad(mask, [(0, 0), (0, 1)], constant_values=1)
        return [_cut_at_end(row, ends) for row in np.stack(generated, axis=1).tolist()]

    def _compute_next(self, ids, positions, mask, places, cache):
        arguments = ids, positions, mask, places.astype("int32")
        if keras.backend.backend() != "tensorflow":
            return self._run_step(*map(keras.ops.convert_to_tensor, arguments), cache)
        if self.step_function is None:
            pair, row = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
            signature = [pair, pair, pair, row, cache_signature(self.encoder)]
            self.step_function = tf.function(self._run_step, signature, autograph=False)
        return self.step_function(*arguments, cache)

    def _run_step(self, ids, positions, mask, places, cache):
        states, cache = next_states(self.encoder, ids, positions, mask, cache)
        last = keras.ops.take_along_axis(states, places[:, None, None], axis=1)
        return self.get_layer("masked_lm")(last)[:, 0], cache

    def _make_continuation(self, prompt, ids, is_finished):
        before, whole = map(self.tokenizer.detokenize, (prompt, [*prompt, *ids]))
        # Decoding only the new tokens would lose the space before them.
        joins = whole.startswith(before)
        text = whole[len(before) :] if joins else self.tokenizer.detokenize(ids)
        return Continuation(text, ids, is_finished)

    # === Perplexity ===

    def perplexity(self, texts: Any) -> Perplexity:
        """Computes the perplexity of a corpus.

        Args:
            texts: see `RawTextTrainer`, but without pairs.

        Returns:
            `Perplexity` over all tokens except the first one of each text, which is `[CLS]` for
            most tokenizers.

        Raises:
            InputError: a text is too long for the model, or there are no tokens to predict.
        """
        rows = self._tokenize_texts(self.as_texts(texts), 0, closes=True)
        counts = np.array([max(0, len(row) - 1) for row in rows], "int64")
        if not counts.sum():
            raise InputError("the texts have no tokens to predict.")
        sums = np.zeros(len(rows))
        predicted = np.flatnonzero(counts)
        for places in _batch_by_length(counts[predicted] + 1):
            batch = predicted[places]
            ids, mask = _pad_rows([rows[text] for text in batch], self.tokenizer.pad_id)
            features = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}
            logits = outputs_of_batch(
                self, dict(zip(features, map(tf.constant, features.values())))
            )
            losses = cross_entropy(ids[:, 1:], logits[:, :-1])
            sums[batch] = -(keras.ops.convert_to_numpy(losses) * mask[:, 1:]).sum(axis=1)
        return Perplexity.of(sums, counts)

    def _tokenize_texts(self, texts, count, closes):
        """Returns the ids of each text.

        Each text starts with the tokenizer's start token. If the tokenizer has one token for start
        and separator, as in GPT-2, the token is added only to empty texts.

        Args:
            count: number of new tokens that must also fit into the maximum length.
            closes: whether to append the separator.
        """
        for position, text in enumerate(texts):
            if isinstance(text, tuple):
                raise InputError(
                    f"a causal language model takes single texts. Text {position} is a pair."
                )
        first, last = [self.tokenizer.cls_id], [self.tokenizer.sep_id]
        if first == last:
            first = last = []
        rows = self.tokenizer.tokenize(texts).to_list() if texts else []
        rows = [[*first, *row, *(last if closes else [])] for row in rows]
        rows = [row or [self.tokenizer.cls_id] for row in rows]
        limit = self.config.max_length
        for position, row in enumerate(rows):
            if len(row) + count > limit:
                raise InputError(
                    f"text {position} has {len(row)} tokens including special tokens"
                    f"{f', plus {count} new tokens' * bool(count)}, but the maximum of the model is "
                    f"{limit}. Shorten the text{' or decrease max_new_tokens' * bool(count)}."
                )
        return rows


def _check_causal(encoder):
    config = encoder.config
    if not config.causal:
        raise InputError(
            "CausalLM needs a causal (left-to-right) encoder, and this encoder attends to tokens on "
            "both sides. Load it with MaskedLM.from_pretrained or `keras-bert fill-mask`, or train "
            "a causal model with pretrain(..., objectives=['left_to_right'])."
        )
    if config.adapter is not None and config.adapter.kind == "prompt":
        raise InputError("CausalLM does not support prompt adapters. Use lora or prefix.")


@tf.autograph.experimental.do_not_convert
def _label_next_tokens(features, *targets):
    """Labels each token with the next token; `NO_LABEL` for the last one."""
    ids, mask = features["token_ids"], features["padding_mask"]
    labels = tf.where(mask[:, 1:] > 0, ids[:, 1:], NO_LABEL)
    return features, tf.pad(labels, [[0, 0], [0, 1]], constant_values=NO_LABEL), *targets


def _batch_by_length(lengths: Iterable[int]) -> Iterable[list[int]]:
    """Sorts texts by length; yields the indices of the texts in each batch."""
    lengths = np.asarray(lengths)
    batch: list[int] = []
    for text in np.argsort(lengths, kind="stable").tolist():
        if batch and (len(batch) == _ROWS or (len(batch) + 1) * lengths[text] > _TOKENS):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def _pad_rows(rows, pad_id):
    """Returns ids and mask, int32 [rows, length]."""
    mask = np.arange(max(map(len, rows)))[None] < np.array([*map(len, rows)])[:, None]
    ids = np.full(mask.shape, pad_id, "int32")
    ids[mask] = np.concatenate(rows)
    return ids, mask.astype("int32")


def _cut_at_end(ids, ends):
    place = next((place for place, token in enumerate(ids) if token in ends), None)
    return ids[:place], place is not None
