"""Small models for every task, with 512 positions and random weights, and texts of all lengths."""

import dataclasses
from collections.abc import Iterator

import keras
import numpy as np

from keras_bert_impl import Encoder, EncoderConfig, WordPieceTokenizer
from keras_bert_impl.serving.graphs.signatures import Signatures
from keras_bert_impl.tasks import (
    EncoderSignatures,
    FeatureTagger,
    LongTexts,
    MaskedLM,
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
)

POSITIONS = 512
# Numbers of tokens; there are eight texts for each number. With [CLS] and [SEP], the longest texts
# fill a row.
LENGTHS = (1, 2, 7, 33, 128, 300, POSITIONS - 2)
BATCH_SIZES = (1, 8, 64)
_WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in "aeiou"]
_SUFFIX = "##s"
_ENTITIES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@dataclasses.dataclass
class Case:
    """A row of the matrix.

    Attributes:
        inputs: lists of strings, the inputs of the signatures.
        asked: names of the string signatures to compare.
    """

    name: str
    signatures: Signatures
    inputs: dict[str, list]
    asked: tuple[str, ...] = ("serving_default",)

    @property
    def model(self) -> keras.Model:
        """The task model, or the `Encoder`."""
        return self.signatures.model

    def reference(self, signature: str) -> list[dict]:
        """Returns the outputs of the model for a signature; see `Signatures.reference`."""
        if signature == "serving_default":
            return self.signatures.reference(**self.inputs)
        if signature == "pairs":
            pairs = list(zip(*self.inputs.values()))
            return [{"scores": row} for row in self.model.predict(pairs, verbose=0)]
        texts = self.inputs["text"]  # labels of words
        return [
            {"num_words": len(labels), "labels": labels, "scores": scores}
            for labels, scores in zip(self.model.tag(texts), self.model.predict(texts, verbose=0))
        ]


def cases(names: list[str] | None = None) -> Iterator[list[Case]]:
    """Yields the list of cases of each model; `names` selects the cases."""
    for make in _MAKERS:
        selected = [name for name in make.names if names is None or name in names]
        if selected:
            yield [case for case in make() if case.name in selected]


def tokenizer() -> WordPieceTokenizer:
    """Creates a tokenizer. Words are one token each, or two if they end in s."""
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS, _SUFFIX])


def encoder() -> Encoder:
    """Creates a small encoder."""
    config = EncoderConfig(
        vocabulary_size=len(_WORDS) + 6,
        hidden_dim=32,
        num_layers=2,
        num_heads=4,
        intermediate_dim=64,
        max_length=POSITIONS,
    )
    return Encoder(config)


def texts(most: int = LENGTHS[-1], seed: int = 0) -> list[str]:
    """Returns 64 texts of at most `most` tokens: eight of each length in `LENGTHS`, 8 mixed."""
    lengths = np.repeat(LENGTHS, 8).tolist() + [*LENGTHS, 64]
    draw = np.random.default_rng(seed)
    return [_make_text(min(length, most), draw) for length in lengths]


def _make_text(num_tokens, draw):
    words = []
    while num_tokens:
        pieces = min(int(draw.integers(1, 3)), num_tokens)
        words.append(str(draw.choice(_WORDS)) + "s" * (pieces - 1))
        num_tokens -= pieces
    return " ".join(words)


# === The models ===

_MAKERS: list = []


def _register(*names):
    """Registers a function that creates a model and the cases with these names."""

    def register(function):
        function.names = names
        _MAKERS.append(function)
        return function

    return register


def _add_noise(model):
    """Returns the signatures of a model, with noise in all weights, because zeros hide errors."""
    draw = np.random.default_rng(0)
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight.value)
        weight.assign(value + 0.2 * draw.normal(size=weight.shape))
    return (
        EncoderSignatures(model, tokenizer())
        if isinstance(model, Encoder)
        else (model.signatures())
    )


def _make_text_cases(name, model, signatures=("serving_default",)):
    return [Case(name, _add_noise(model), {"text": texts()}, signatures)]


def _make_classifier(**settings):
    return TextClassifier(encoder(), tokenizer(), **{"max_length": POSITIONS} | settings)


def _make_tagger_cases(name, kind=TokenClassifier, **settings):
    model = kind(encoder(), tokenizer(), labels=_ENTITIES, max_length=POSITIONS, **settings)
    # There may be few predicted entities, but every word has scores.
    return _make_text_cases(name, model, signatures=("serving_default", "words"))


@_register("TextClassifier, one label", "TextClassifier, pairs")
def _make_one_label():
    signatures = _add_noise(_make_classifier(labels=["bad", "good", "neither"]))
    pairs = {"first": texts(255), "second": texts(254, seed=1)}
    return [
        Case("TextClassifier, one label", signatures, {"text": texts()}),
        Case("TextClassifier, pairs", signatures, pairs, ("pairs",)),
    ]


@_register("TextClassifier, several labels")
def _make_several_labels():
    kind = "multi_label_classification"
    model = _make_classifier(labels=["a", "b", "c"], problem_type=kind)
    return _make_text_cases("TextClassifier, several labels", model)


@_register("TextClassifier, regression")
def _make_regression():
    return _make_text_cases("TextClassifier, regression", _make_classifier(num_classes=1))


@_register("TextClassifier, windows")
def _make_windows():
    model = _make_classifier(
        labels=["a", "b"], long_texts=LongTexts("mean", max_windows=4), max_length=128
    )
    return _make_text_cases("TextClassifier, windows", model)


@_register("TokenClassifier")
def _make_tags():
    return _make_tagger_cases("TokenClassifier")


@_register("TokenClassifier, CRF")
def _make_crf_tags():
    return _make_tagger_cases("TokenClassifier, CRF", crf=True)


@_register("FeatureTagger")
def _make_features():
    return _make_tagger_cases("FeatureTagger", FeatureTagger, lstm_dim=16)


@_register("QuestionAnswerer")
def _make_answers():
    model = QuestionAnswerer(encoder(), tokenizer(), max_length=POSITIONS, null_threshold=0.0)
    contexts = texts(POSITIONS - 7)  # a row has four question tokens and three special tokens
    inputs = {"question": ["ba de fi go"] * len(contexts), "context": contexts}
    return [Case("QuestionAnswerer", _add_noise(model), inputs)]


@_register("MultipleChoice")
def _make_choices():
    model = MultipleChoice(encoder(), tokenizer(), max_length=POSITIONS)
    # with other seeds, two endings may have the same score, and rounding decides
    columns = [texts(254, seed) for seed in (3, 4, 5)]
    inputs = {"prompt": texts(255), "endings": [list(row) for row in zip(*columns)]}
    return [Case("MultipleChoice", _add_noise(model), inputs)]


@_register("MultipleChoice, windows")
def _make_window_choices():
    windows = {"long_texts": LongTexts("max", max_windows=4), "max_length": 128}
    model = MultipleChoice(encoder(), tokenizer(), **windows)
    columns = [texts(32, seed) for seed in (3, 4, 5)]
    inputs = {"prompt": texts(), "endings": [list(row) for row in zip(*columns)]}
    return [Case("MultipleChoice, windows", _add_noise(model), inputs)]


@_register("MaskedLM")
def _make_fillings():
    masked = [" ".join([*text.split()[:-1], "[MASK]"]) for text in texts()]
    return [Case("MaskedLM", _add_noise(MaskedLM(encoder(), tokenizer())), {"text": masked})]


@_register("TextEmbedder")
def _make_vectors():
    model = TextEmbedder(encoder(), tokenizer(), normalize=True, max_length=POSITIONS)
    return _make_text_cases("TextEmbedder", model)


@_register("TextEmbedder, windows")
def _make_window_vectors():
    windows = {"long_texts": LongTexts("attention", max_windows=4), "max_length": 128}
    return _make_text_cases(
        "TextEmbedder, windows", TextEmbedder(encoder(), tokenizer(), **windows)
    )


@_register("NextSentencePredictor")
def _make_next_sentence():
    pairs = {"first": texts(255), "second": texts(254, seed=1)}
    model = NextSentencePredictor(encoder(), tokenizer())
    return [Case("NextSentencePredictor", _add_noise(model), pairs)]


@_register("Encoder")
def _make_encoder():
    return _make_text_cases("Encoder", encoder())
