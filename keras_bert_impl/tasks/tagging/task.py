"""The tagging task, for training runs and for the command line."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert_impl.checkpoints.interop import OWN_SETTINGS
from keras_bert_impl.checkpoints.interop.source import ModelSource
from keras_bert_impl.data.batches.blocks import UndefinedScoresError
from keras_bert_impl.data.batches.words import as_words
from keras_bert_impl.data.scores.comparison import Comparison, Outcome
from keras_bert_impl.data.scores.decisions import undefined
from keras_bert_impl.data.tables.held_rows import write_held_out
from keras_bert_impl.data.tables.labels import check_several, sort_names
from keras_bert_impl.data.tags.examples import (
    TaggedExamples,
    read_tag_predictions,
    score_tags,
    write_tag_predictions,
)
from keras_bert_impl.data.tags.reading.copying import copy_sentences
from keras_bert_impl.data.tags.reading.read_tags import read_words
from keras_bert_impl.tasks.base.description import Task
from keras_bert_impl.tasks.base.options import setting_names
from keras_bert_impl.tasks.tagging import SETTINGS, TASK_NAME, read
from keras_bert_impl.tasks.tagging.baseline import compared, outcome_of, word_tags
from keras_bert_impl.tasks.tagging.feature_tagger import FeatureTagger
from keras_bert_impl.tasks.tagging.token_classifier import TokenClassifier
from keras_bert_impl.tasks.tagging.word_tagger import WordTagger


class Tagging(Task):
    """Token classification."""

    name = TASK_NAME
    model_classes = (TokenClassifier, FeatureTagger)
    report = "keras_bert_impl.reports.sections.tagging"
    example_class = TaggedExamples
    architectures = ("ForTokenClassification",)
    settings = setting_names(SETTINGS)
    read = staticmethod(read)
    write_held_out = staticmethod(functools.partial(write_held_out, copy=copy_sentences))

    def __init__(self, train: TaggedExamples, dev: TaggedExamples):
        self._names = list(train.label_names)
        check_several(self._names, train.source, "words")
        dev.class_numbers(self._names)
        self.arguments = {"labels": self._names}

    @staticmethod
    def examples_of(texts: list, labels: list, source: str) -> TaggedExamples | None:
        if not isinstance(texts[0], list):
            return None
        names = sort_names(label for row in labels for label in row)
        return TaggedExamples(texts, labels, names, source=source)

    @staticmethod
    def score(
        model: WordTagger, examples: TaggedExamples, directory: Path | None = None
    ) -> dict[str, float]:
        examples.class_numbers(model.labels)
        examples = examples.replace(label_names=model.labels)  # decide whether there are entities
        try:
            predictions, scores = model.tag_with_scores(examples.texts)
        except UndefinedScoresError:
            return undefined(score_tags(examples, examples.labels))
        if directory is not None:
            write_tag_predictions(directory / "predictions.tsv", examples, predictions, scores)
        return score_tags(examples, predictions)

    def score_names(self, dev: TaggedExamples) -> list[str]:
        return list(score_tags(dev.replace(label_names=self._names), dev.labels))

    def compare(self, train: TaggedExamples, dev: TaggedExamples, directory: Path) -> Comparison:
        predicted = read_tag_predictions(directory / "predictions.tsv")
        simple = word_tags(train.texts, train.labels, dev.texts)
        return compared(dev.labels, predicted, simple, train.label_names)

    @staticmethod
    def outcome(model: WordTagger, examples: TaggedExamples, like: WordTagger) -> Outcome:
        names = {*model.labels, *like.labels}
        examples.class_numbers(like.labels)
        return outcome_of(examples.labels, model.tag(examples.texts), names)

    def model_class(self, settings: dict[str, Any]) -> type:
        return FeatureTagger if "features" in settings else TokenClassifier

    @classmethod
    def recognize(cls, source: ModelSource) -> type | None:
        if "lstm_dim" in source.config.mapping(OWN_SETTINGS):
            return FeatureTagger  # older files do not contain the model class
        return super().recognize(source)

    @staticmethod
    def read_inputs(path: str) -> list[tuple[Any, dict[str, Any]]] | None:
        sentences = read_words(path)
        return None if sentences is None else [(words, {}) for words in sentences]

    @staticmethod
    def predictions(model: WordTagger, texts: list) -> Iterator[tuple[dict, list[str]]]:
        tags, entities = model.annotate(texts)
        for number, (text, labels) in enumerate(zip(texts, tags)):
            sentence = as_words([text])[0]
            words = [sentence.text[start:end] for start, end in zip(sentence.starts, sentence.ends)]
            answer: dict[str, list] = {"words": words, "labels": labels}
            if entities is not None:
                answer["entities"] = [entity._asdict() for entity in entities[number]]
            yield answer, [" ".join(f"{word}/{label}" for word, label in zip(words, labels))]


TASKS = (Tagging,)
