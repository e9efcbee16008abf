"""What tasks do each in their own way in a run: their model, labels, scores and predictions."""

import csv

import numpy as np

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_file
from keras_bert_impl.interop import open_model
from keras_bert_impl.tasks.choices import (
    ChoiceExamples,
    score_choices,
    write_choice_predictions,
)
from keras_bert_impl.tasks.examples import Examples
from keras_bert_impl.tasks.feature_tagger import FeatureTagger
from keras_bert_impl.tasks.labels import class_weights
from keras_bert_impl.tasks.metrics import METRICS, multi_label_scores
from keras_bert_impl.tasks.multiple_choice import MultipleChoice
from keras_bert_impl.tasks.question_answerer import QuestionAnswerer
from keras_bert_impl.tasks.similarity import Similarity, SimilarityExamples
from keras_bert_impl.tasks.squad import QuestionExamples
from keras_bert_impl.tasks.squad_results import (
    score_answers,
    search_null_threshold,
    write_answer_files,
)
from keras_bert_impl.tasks.tagging import TaggedExamples, score_tags, write_tag_predictions
from keras_bert_impl.tasks.text_classifier import MULTI, REGRESSION, SINGLE, TextClassifier
from keras_bert_impl.tasks.text_embedder import TextEmbedder
from keras_bert_impl.tasks.token_classifier import TokenClassifier


class Texts:
    """Classes or numbers for texts.

    Args:
        train, dev: `Examples`.

    Raises:
        InputError: labels that cannot be learned, or that only one of the two has.

    Attributes:
        model_class: the `TaskModel`.
        settings: names of `FinetuneSettings` that are this task's own.
        arguments: dict for `model_class.from_pretrained`.
    """

    model_class = TextClassifier
    settings = ("long_texts", "doc_stride", "max_windows", "class_weight")

    def __init__(self, train, dev):
        self._names = None
        self._is_multi_label = train.is_multi_label
        if train.is_numeric:
            self.arguments = {"num_classes": 1, "problem_type": REGRESSION}
            return
        if self._is_multi_label:
            self._names = train.label_names or sorted(set().union(*train.labels))
            if not self._names:
                raise InputError(f"{train.source}: no text has a label.")
            dev.multi_hot(self._names)
            self.arguments = {"labels": list(self._names), "problem_type": MULTI}
            return
        self._names = train.label_names or sorted(set(train.labels))
        if len(self._names) < 2:
            raise InputError(f"{train.source}: all texts have the label {self._names[0]!r}.")
        dev.class_numbers(self._names)
        self.arguments = {"labels": list(self._names), "problem_type": SINGLE}

    def inputs(self, examples):
        """Examples as `fit` takes them: (x, y)."""
        return examples.texts, self._labels(examples)

    def _labels(self, examples):
        if self._names is None:
            return np.array(examples.labels, "float32")
        if self._is_multi_label:
            return examples.multi_hot(self._names)
        return examples.class_numbers(self._names)

    def class_weight(self, train, weights):
        """dict of class number -> factor in the loss, as `labels.class_weights` makes it."""
        if self._names is None or self._is_multi_label:
            raise InputError("class_weight is for texts with one label each.")
        return class_weights(weights, self._names, train.class_numbers(self._names))

    def finish(self, model, dev, directory):
        """Scores the model as it was saved and writes its predictions.

        Args:
            model: of `model_class`, from the run directory's `model`.
            dev: `Examples`.
            directory: `Path` of the run directory.

        Returns:
            dict of scores.
        """
        scores = model.predict(dev.texts, verbose=0)
        write_predictions(directory / "predictions.tsv", model, scores)
        if self._is_multi_label:
            return multi_label_scores(self._labels(dev), scores >= 0.5)
        if self._names is None:
            predictions = scores[:, 0]
            metrics = dev.metrics or ("pearson", "spearman", "mean_squared_error")
        else:
            predictions = scores.argmax(axis=-1)
            metrics = dev.metrics or ("accuracy", "macro_f1")
        return {name: METRICS[name](self._labels(dev), predictions) for name in metrics}


class Tags:
    """A label for each word; as `Texts`, of `TaggedExamples`."""

    model_class = TokenClassifier
    feature_class = FeatureTagger  # where the setting `features` is chosen
    settings = ("doc_stride", "label_all_pieces", "crf", "features")

    def __init__(self, train, dev):
        self._names = list(train.label_names)
        dev.class_numbers(self._names)
        self.arguments = {"labels": self._names}

    def inputs(self, examples):
        return examples.texts, examples.labels

    def finish(self, model, dev, directory):
        predictions = model.tag(dev.texts)
        write_tag_predictions(directory / "predictions.tsv", dev, predictions)
        return score_tags(dev, predictions)


class Questions:
    """Answers in contexts; as `Texts`, of `QuestionExamples`.

    Where questions may have no answer, the threshold for that is searched on `dev` and saved with
    the model.
    """

    model_class = QuestionAnswerer
    settings = ("doc_stride", "max_question_length")

    def __init__(self, train, dev):
        if (train.is_impossible is None) is not (dev.is_impossible is None):
            raise InputError(
                f"one of {train.source} and {dev.source} has questions without an answer, as SQuAD "
                "2.0 has, and the other has not."
            )
        self._has_nulls = train.is_impossible is not None
        self.arguments = {"null_threshold": 0.0 if self._has_nulls else None}

    def inputs(self, examples):
        return examples.pairs, examples.answers

    def finish(self, model, dev, directory):
        predictions = model.predict(dev.pairs, verbose=0)
        if self._has_nulls:
            model.null_threshold = search_null_threshold(dev, predictions)
            model.save_settings(directory / "model")
        write_answer_files(directory, dev, predictions, model.null_threshold)
        return score_answers(dev, predictions, model.null_threshold)


class Choices:
    """One of several endings; as `Texts`, of `ChoiceExamples`."""

    model_class = MultipleChoice
    settings = ()

    def __init__(self, train, dev):
        self.arguments = {}

    def inputs(self, examples):
        return examples.texts, examples.labels

    def finish(self, model, dev, directory):
        probabilities = model.predict(dev.texts, verbose=0)
        write_choice_predictions(directory / "predictions.tsv", probabilities)
        return score_choices(dev, probabilities)


_KINDS = {
    Examples: Texts,
    TaggedExamples: Tags,
    QuestionExamples: Questions,
    ChoiceExamples: Choices,
    SimilarityExamples: Similarity,
}
_ARCHITECTURES = {  # ends of what config.json names
    "ForSequenceClassification": TextClassifier,
    "ForTokenClassification": TokenClassifier,
    "ForQuestionAnswering": QuestionAnswerer,
    "ForQuestionAnsweringSimple": QuestionAnswerer,  # FlauBERT's
    "ForMultipleChoice": MultipleChoice,
}


def kind_of(train, dev):
    """The kind of task that two sets of labelled examples are of.

    Raises:
        InputError: they are not of one kind, or one has no labels.
    """
    if type(train) is not type(dev):
        raise InputError(f"{train.source} and {dev.source} are examples of different tasks.")
    for examples in (train, dev):
        if not len(examples) or getattr(examples, "labels", ()) is None:
            raise InputError(f"{examples.source} has no labelled texts.")
    return _KINDS[type(train)](train, dev)


def model_class_of(directory, base=None):
    """The class of the task model in a model directory, as its `config.json` names it.

    An embedder is no class there; it has the `modules.json` of `sentence-transformers`.

    Args:
        directory, base: as of `open_model`.

    Raises:
        InputError: it names none that is known.
    """
    source = open_model(directory, base=base)
    if "lstm_dim" in (source.config.get("keras_bert_impl") or {}):
        return FeatureTagger  # the files are those of a bare encoder
    found = source.config.get("architectures") or []
    for name in found:
        for end, model_class in _ARCHITECTURES.items():
            if str(name).endswith(end):
                return model_class
    if (source.task_path / "modules.json").is_file():
        return TextEmbedder
    raise InputError(
        f"{directory} holds no tuned model: its config.json names {', '.join(map(str, found))}, "
        f"which ends in none of {', '.join(_ARCHITECTURES)}."
    )


def names_of(classifier, row):
    """list of str: the labels that the scores of a text, `[num_classes]`, give it."""
    if classifier.problem_type == SINGLE:
        return [classifier.labels[row.argmax()]]
    return [name for name, score in zip(classifier.labels, row) if score >= 0.5]


def write_predictions(path, classifier, scores):
    """Writes a line for each text: its number, the label, and the score of every class.

    Several labels are separated by commas; a regression has none.

    Args:
        path: str or `Path` of the `.tsv` file.
        classifier: `TextClassifier`.
        scores: float32 `[texts, num_classes]`, from `predict`.
    """
    columns = ["index", "label", *classifier.labels]
    if classifier.problem_type == REGRESSION:
        columns = ["index", *classifier.labels]
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(columns)
        for number, row in enumerate(scores):
            label = [",".join(names_of(classifier, row))] if "label" in columns[:2] else []
            # Nine digits give a float32 back exactly.
            writer.writerow([number, *label, *(f"{score:.9g}" for score in row)])
