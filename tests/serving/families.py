"""A tiny model of each exportable kind, with unusual texts."""

import random

import keras

from keras_bert_impl.tasks import (
    EncoderSignatures,
    FeatureTagger,
    LongTexts,
    MaskedLM,
    MultipleChoice,
    NextSentencePredictor,
    QuestionAnswerer,
    TextEmbedder,
    TokenClassifier,
)
from tests.helpers import randomize
from tests.tasks.helpers import classifier, encoder, examples, tokenizer

ENTITIES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SPEECH = ["NOUN", "VERB", "DET"]
TEXTS = examples(count=9)[0]
_REPEATED = "good " * 100
ODD = [
    "",
    " ",
    _REPEATED,
    "g\u00f6\u00f6d \u0000 film",
    "[MASK] good, the-film!",
    "\u65e5\u672c film",
    "\u3000good\u3000film ",
]
ALL = TEXTS + ODD
_QUESTIONS = ["what is good", "", "the film", "not", "awful joy what"]


def tagger(**arguments):
    arguments = {"labels": ENTITIES, "max_length": 16} | arguments
    return TokenClassifier(encoder(), tokenizer(), **arguments)


def feature_tagger(**arguments):
    arguments = {"labels": ENTITIES, "max_length": 16, "lstm_dim": 8} | arguments
    return FeatureTagger(encoder(), tokenizer(), **arguments)


def answerer(**arguments):
    sizes = {"max_length": 16, "doc_stride": 4, "max_question_length": 4}
    arguments = {**sizes, "num_best": 5, "max_answer_length": 4} | arguments
    return QuestionAnswerer(encoder(), tokenizer(), **arguments)


def windows_of_choices():
    return MultipleChoice(
        encoder(), tokenizer(), long_texts=LongTexts("mean", max_windows=3), max_length=10
    )


def windows_of_vectors():
    return TextEmbedder(encoder(), tokenizer(), long_texts="attention", max_length=8)


def windows(**arguments):
    return classifier(long_texts=LongTexts("mean", max_windows=3), max_length=8, **arguments)


# Name: (function that returns the model or its signatures, inputs of `serving_default`).
_TEXT = {"text": ALL}
_PAIRS = {"first": ALL, "second": ALL[::-1]}
# If all windows held the same words, only rounding would decide which window has the answer.
_LONG = " ".join(random.Random(0).choices("good bad film very not awful joy the".split(), k=100))
_CONTEXTS = {
    "question": [_QUESTIONS[i % len(_QUESTIONS)] for i in range(len(ALL))],
    "context": [_LONG if text == _REPEATED else text for text in ALL],
}
_CHOICES = {
    "prompt": ALL,
    "endings": [[ALL[i - 1] or "a", ALL[i - 2] or "b", "good" * (i % 2)] for i in range(len(ALL))],
}
_MASKED = {"text": [f"{text} [MASK]" for text in TEXTS] + ["[MASK] [MASK] [MASK]"]}
FAMILIES = {
    "single_label": (classifier, _TEXT),
    "several_labels": (
        lambda: classifier(labels=list("abc"), problem_type="multi_label_classification"),
        _TEXT,
    ),
    "regression": (lambda: classifier(labels=None, num_classes=1), _TEXT),
    "windows": (windows, _TEXT),
    "next_sentence": (lambda: NextSentencePredictor(encoder(), tokenizer()), _PAIRS),
    "entities": (tagger, _TEXT),
    "speech": (lambda: tagger(labels=SPEECH), _TEXT),
    "entities_mean": (lambda: tagger(aggregation="mean"), _TEXT),
    "entities_max": (lambda: tagger(aggregation="max"), _TEXT),
    "entities_crf": (lambda: tagger(crf=True), _TEXT),
    "features": (feature_tagger, _TEXT),
    "features_crf": (lambda: feature_tagger(crf=True, features="mix"), _TEXT),
    "answers": (answerer, _CONTEXTS),
    "answers_or_none": (lambda: answerer(null_threshold=0.1), _CONTEXTS),
    "one_answer_or_none": (lambda: answerer(null_threshold=0.0, num_best=1), _CONTEXTS),
    "choices": (lambda: MultipleChoice(encoder(), tokenizer()), _CHOICES),
    "choices_in_windows": (windows_of_choices, _CHOICES),
    "fillings": (lambda: MaskedLM(encoder(), tokenizer()), _MASKED),
    "vectors": (lambda: TextEmbedder(encoder(), tokenizer(), normalize=True), _TEXT),
    "vectors_of_windows": (windows_of_vectors, _TEXT),
    "encoder": (lambda: EncoderSignatures(encoder(), tokenizer()), _TEXT),
}


def signatures_of(family):
    """The `Signatures` of a family, with random weights."""
    served = FAMILIES[family][0]()
    signatures = served.signatures() if isinstance(served, keras.Model) else served
    randomize(signatures.model, scale=0.2)
    return signatures
