"""Text encoding and similarities for `TextEmbedder`."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches.batching import TokenizedTexts
from keras_bert_impl.data.batches.blocks import in_blocks
from keras_bert_impl.data.batches.windows import GroupedTexts, tokenize_groups
from keras_bert_impl.data.tables.user_input import not_a_text, values
from keras_bert_impl.layers.basic import ThreadValue
from keras_bert_impl.tasks.embedding import losses
from keras_bert_impl.tasks.embedding.vector_similarity import similarity
from keras_bert_impl.tokenizers.tokenizer import as_strings
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.first_guesses import known_arguments

_Mixin: Any = object  # for mypy: the methods use attributes of `TaskModel`


class TextVectors(_Mixin):
    """Mixin for a `TaskModel` that encodes texts to vectors.

    The model must have the attributes `prompts`, `default_prompt_name`, `do_lower_case` and
    `similarity_fn_name`.
    """

    _prompt = ThreadValue(None)  # replaces the default prompt during `encode`

    @known_arguments("TextEmbedder.encode")
    def encode(
        self,
        texts: Any,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        verbose: int | str = 0,
    ) -> np.ndarray:
        """Encodes texts to vectors.

        Args:
            texts: list or array of str, or a single str.
            prompt_name: key of the prompt in `prompts` to prepend. Default: the model's
                `default_prompt_name`.
            prompt: text of a prompt, instead of `prompt_name`; "" for no prompt.
            batch_size: default 32.
            verbose: see `predict`.

        Returns:
            float32 `[texts, dim]`; `[dim]` for a single str.

        Raises:
            InputError: the texts are tuples, or the prompt is unknown.
        """
        if isinstance(texts, (str, bytes)):
            return self.encode([texts], prompt_name, prompt, batch_size, verbose)[0]
        texts = self.as_texts(texts)
        if texts and not isinstance(texts[0], (str, bytes)):
            raise InputError("encode() takes single texts; for tuples of texts call predict().")
        if prompt is None and prompt_name is not None:
            if prompt_name not in self.prompts:
                names = listed(self.prompts) or "none"
                raise InputError(f"unknown prompt {prompt_name!r:.60}; the model has {names}.")
            prompt = self.prompts[prompt_name]
        with self._prompt.set(prompt):
            return self.predict(texts, batch_size=batch_size, verbose=verbose)

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """Computes pairwise similarities with `similarity_fn_name`.

        Args:
            first, second: arrays of vectors `[n, dim]` and `[m, dim]`, or `[dim]`; or lists of str,
                which are encoded first.

        Returns:
            float32 `[n, m]`: cosines, dot products, or negated Euclidean or Manhattan distances.

        Example:
            embedder.similarity(embedder.encode(["a text"]), embedder.encode(["b", "c"]))  # float32 [1, 2]
        """
        vectors = self._convert_to_vectors(first), self._convert_to_vectors(second)
        return similarity(*vectors, kind=self.similarity_fn_name)

    def _convert_to_vectors(self, inputs):
        if isinstance(inputs, (str, bytes)):
            inputs = [inputs]
        if isinstance(inputs, (list, tuple)) and all(
            isinstance(text, (str, bytes)) for text in inputs
        ):
            inputs = self.encode(list(inputs))
        return np.asarray(inputs, "float32")

    def similarities(
        self, pairs: Any, batch_size: int | None = None, verbose: int | str = 0
    ) -> np.ndarray:
        """Computes the cosine similarity of each pair of texts, float32 `[pairs]`.

        Args:
            pairs: list of (first, second), or a tuple of two lists.
        """

        def compute_cosines(pairs):
            if not pairs:
                return np.zeros(0, "float32")
            vectors = self.predict(pairs, batch_size=batch_size, verbose=verbose)
            if vectors.ndim != 3 or vectors.shape[1] != 2:
                raise InputError(
                    "a similarity requires two texts. Pass (first, second) tuples, or --pair "
                    "COLUMN on the command line. For the vectors of texts, use encode, or "
                    "keras-bert embed."
                )
            return np.asarray(losses.cosine_similarities(vectors[:, 0], vectors[:, 1]))

        return in_blocks(compute_cosines, self.as_texts(pairs))

    # === Texts and labels ===

    def checked_texts(self, x: Any) -> list:
        """Returns a list of str, or of tuples of equal length."""
        if isinstance(x, (str, bytes)):
            x = [x]
        if isinstance(x, tuple):
            columns = [self.as_texts(column) for column in x]
            if len({len(column) for column in columns}) > 1:
                sizes = ", ".join(str(len(column)) for column in columns)
                raise InputError(f"the lists of texts differ in length: {sizes}.")
            x = list(zip(*columns))
        examples = [tuple(row) if isinstance(row, list) else row for row in values(x)]
        for number, example in enumerate(examples):
            for text in example if isinstance(example, tuple) else [example]:
                if not isinstance(text, (str, bytes)):
                    raise InputError(f"example {number}: a text {not_a_text(text)}")
            if _group(example) != _group(examples[0]):
                raise InputError(
                    f"example {number} has {_group(example)} text(s), but the first one has "
                    f"{_group(examples[0])}."
                )
        return examples

    def tokenized(self, texts: list) -> TokenizedTexts | GroupedTexts:
        if self._prepares:
            texts = self._prepare_texts(as_strings(texts)).numpy().tolist()
        return super().tokenized(texts)

    def text_features(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return super().text_features(self._prepare_texts(texts))

    @property
    def _prepares(self):
        return self.do_lower_case or bool(self._prompt_now)

    @property
    def _prompt_now(self):
        prompt = self._prompt.value
        return self.prompts.get(self.default_prompt_name, "") if prompt is None else prompt

    def _prepare_texts(self, texts):
        if self._prompt_now:
            texts = tf.strings.join([self._prompt_now, texts])
        return tf.strings.lower(texts, encoding="utf-8") if self.do_lower_case else texts

    def rows(
        self, texts: list, labels: Any = None, weights: Any = None
    ) -> tuple[GroupedTexts, tuple]:
        examples = [(text,) if isinstance(text, (str, bytes)) else text for text in texts]
        tokenized = tokenize_groups(examples, self.tokenized)
        return tokenized, tuple(target for target in (labels, weights) if target is not None)

    def joined(self, outputs: Any, texts: list, tokenized: Any) -> np.ndarray:
        return outputs if texts and isinstance(texts[0], tuple) else outputs[:, 0]

    def features_in_graph(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self.text_features(tf.reshape(texts, [-1]))
        group = texts.shape[1] or tf.shape(texts)[1]

        def split_into_groups(feature):
            sizes = [size or tf.shape(feature)[axis] for axis, size in enumerate(feature.shape)]
            return tf.reshape(feature, [-1, group, *sizes[1:]])

        return {name: split_into_groups(feature) for name, feature in features.items()}


def _group(example):
    return 1 if isinstance(example, (str, bytes)) else len(example)
