"""What tasks do each in their own way in a run: their model, labels, scores and predictions."""

import csv

import numpy as np

from keras_bert_impl.errors import InputError, listed
from keras_bert_impl.files import replace_file
from keras_bert_impl.interop import OWN_SETTINGS, open_model
from keras_bert_impl.tasks.anchors import AnchorExamples, Anchors
from keras_bert_impl.tasks.answers import Answer
from keras_bert_impl.tasks.choices import (
    ChoiceExamples,
    score_choices,
    write_choice_predictions,
)
from keras_bert_impl.tasks.decisions import (
    UndefinedScoresError,
    at_least_half,
    likeliest,
    undefined,
)
from keras_bert_impl.tasks.class_weights import class_weights
from keras_bert_impl.tasks.examples import Examples
from keras_bert_impl.tasks.feature_tagger import FeatureTagger
from keras_bert_impl.tasks.kind import LONG_TEXT_SETTINGS, Kind
from keras_bert_impl.tasks.labels import join_names
from keras_bert_impl.tasks.masked_lm import MaskedLM
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
from keras_bert_impl.tasks.task_model import MODEL_CLASS
from keras_bert_impl.tasks.text_classifier import MULTI, REGRESSION, SINGLE, TextClassifier
from keras_bert_impl.tasks.text_embedder import TextEmbedder
from keras_bert_impl.tasks.token_classifier import TokenClassifier


class Texts(Kind):
    """Classes or numbers for texts, of `Examples`."""

    model_class = TextClassifier
    settings = (*LONG_TEXT_SETTINGS, "class_weight", "pooling")

    def __init__(self, train, dev):
        self._problem_type, self._names = _problem_type(train), None
        if self._problem_type == REGRESSION:
            self.arguments = {"num_classes": 1, "problem_type": REGRESSION}
            return
        if self._problem_type == MULTI:
            self._names = train.label_names or sorted(set().union(*train.labels))
            if not self._names:
                raise InputError(f"{train.source}: no text has a label.")
        else:
            self._names = train.label_names or sorted(set(train.labels))
            if len(self._names) < 2:
                raise InputError(f"{train.source}: all texts have the label {self._names[0]!r}.")
        _targets(dev, self._problem_type, self._names)
        self.arguments = {"labels": list(self._names), "problem_type": self._problem_type}

    def inputs(self, examples):
        targets = _targets(examples, self._problem_type, self._names)
        if self._problem_type == SINGLE:
            targets = [self._names[number] for number in targets]
        return examples.texts, targets

    def class_weight(self, train, weights):
        """dict of class number -> factor in the loss, as `labels.class_weights` makes it."""
        if self._problem_type != SINGLE:
            raise InputError("class_weight is for texts with one label each.")
        return class_weights(weights, self._names, train.class_numbers(self._names))

    @staticmethod
    def score(model, examples, directory=None):
        received = _problem_type(examples)
        if received != model.problem_type or (received == REGRESSION and len(model.labels) > 1):
            raise InputError(
                f"{examples.source} has labels of {received}, and the model is of "
                f"{model.problem_type} with {len(model.labels)} output(s): numbers are read with "
                "--regression (numeric=True), several labels with --label-separator."
            )
        targets = _targets(examples, received, model.labels)
        scores = model.predict(examples.texts, verbose=0)
        if directory is not None:
            write_predictions(directory / "predictions.tsv", model, scores)
        if received == MULTI:
            return multi_label_scores(targets, at_least_half(scores))
        if received == REGRESSION:
            predictions = scores[:, 0]
            metrics = examples.metrics or ("pearson", "spearman", "mean_squared_error")
        else:
            predictions = likeliest(scores)
            metrics = examples.metrics or ("accuracy", "macro_f1")
        return {name: METRICS[name](targets, predictions) for name in metrics}


def _problem_type(examples):
    if examples.is_numeric:
        return REGRESSION
    return MULTI if examples.is_multi_label else SINGLE


def _targets(examples, problem_type, names):
    """Labels as `fit` and the metrics take them."""
    if problem_type == REGRESSION:
        return np.array(examples.labels, "float32")
    return examples.multi_hot(names) if problem_type == MULTI else examples.class_numbers(names)


class Tags(Kind):
    """A label for each word, of `TaggedExamples`."""

    model_class = TokenClassifier
    feature_class = FeatureTagger  # where the setting `features` is chosen
    settings = ("doc_stride", "label_all_pieces", "crf", "features")

    def __init__(self, train, dev):
        self._names = list(train.label_names)
        dev.class_numbers(self._names)
        self.arguments = {"labels": self._names}

    @staticmethod
    def score(model, examples, directory=None):
        examples.class_numbers(model.labels)
        try:
            predictions = model.tag(examples.texts)
        except UndefinedScoresError:
            return undefined(score_tags(examples, examples.labels))
        if directory is not None:
            write_tag_predictions(directory / "predictions.tsv", examples, predictions)
        return score_tags(examples, predictions)


class Questions(Kind):
    """Answers in contexts, of `QuestionExamples`.

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

    @staticmethod
    def score(model, examples, directory=None):
        try:
            predictions = model.predict(examples.pairs, verbose=0)
        except UndefinedScoresError:
            return _undefined_answers(model, examples)
        return _score_predictions(model, examples, predictions, directory)

    def finish(self, model, dev, directory=None):
        if not self._has_nulls:
            return self.score(model, dev, directory)
        try:
            predictions = model.predict(dev.pairs, verbose=0)
        except UndefinedScoresError:
            return _undefined_answers(model, dev)
        model.null_threshold = search_null_threshold(dev, predictions)
        if directory is not None:
            model.save_settings(directory / "model")
        return _score_predictions(model, dev, predictions, directory)


def _score_predictions(model, examples, predictions, directory):
    if directory is not None:
        write_answer_files(directory, examples, predictions, model.null_threshold)
    return score_answers(examples, predictions, model.null_threshold)


def _undefined_answers(model, examples):
    """The names of the scores that the model would have, NaN as their values."""
    nothing = [[Answer("", 0, 0, 1.0, 0.0, 0.0)]] * len(examples)
    return undefined(score_answers(examples, nothing, model.null_threshold))


class Choices(Kind):
    """One of several endings, of `ChoiceExamples`."""

    model_class = MultipleChoice
    settings = LONG_TEXT_SETTINGS

    def __init__(self, train, dev):
        self.arguments = {}

    @staticmethod
    def score(model, examples, directory=None):
        probabilities = model.predict(examples.texts, verbose=0)
        if directory is not None:
            write_choice_predictions(directory / "predictions.tsv", probabilities)
        return score_choices(examples, probabilities)


_KINDS = {
    Examples: Texts,
    TaggedExamples: Tags,
    QuestionExamples: Questions,
    ChoiceExamples: Choices,
    SimilarityExamples: Similarity,
    AnchorExamples: Anchors,
}
_CLASSES = {  # that `config.json` may name
    model_class.__name__: model_class
    for model_class in (
        TextClassifier,
        TokenClassifier,
        FeatureTagger,
        QuestionAnswerer,
        MultipleChoice,
        TextEmbedder,
        MaskedLM,
    )
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
        _check_labelled(examples)
    return _KINDS[type(train)](train, dev)


def score(model, examples, directory=None):
    """The scores of a tuned model on labelled examples of its task; see `Kind.score`.

    Raises:
        InputError: they are of another task, or have no labels or ones that the model has not.
    """
    _check_labelled(examples)
    kind = _KINDS[type(examples)]
    if not isinstance(model, (kind.model_class, getattr(kind, "feature_class", kind.model_class))):
        raise InputError(
            f"{examples.source} was read for a {kind.model_class.__name__}, and the model is a "
            f"{type(model).__name__}: read it for that task."
        )
    return kind.score(model, examples, directory)


def score_more(model, more, directory=None):
    """The scores on further examples, each with the name of its set before it.

    Args:
        model: `TaskModel`.
        more: dict of name -> examples.
        directory: `Path` of an existing folder: predictions are in folders of these names.
    """
    scores = {}
    for name, examples in more.items():
        folder = None if directory is None else directory / name
        if folder is not None:
            folder.mkdir(exist_ok=True)
        found = score(model, examples, folder)
        scores |= {f"{name}/{metric}": value for metric, value in found.items()}
    return scores


def _check_labelled(examples):
    needs_labels = not isinstance(examples, AnchorExamples)
    if not len(examples) or (needs_labels and getattr(examples, "labels", ()) is None):
        raise InputError(f"{examples.source} has no labelled texts.")


def model_class_of(directory, base=None):
    """The class of the task model in a model directory, as its `config.json` names it.

    Where others wrote that, the architecture tells it; of an embedder there is none, but the
    `modules.json` of `sentence-transformers`.

    Args:
        directory, base: as of `open_model`.

    Raises:
        InputError: it names none that is known.
    """
    source = open_model(directory, base=base)
    own = source.config.mapping(OWN_SETTINGS)
    named = _CLASSES.get(own.text(MODEL_CLASS, None))
    if named is not None:
        return named
    if "lstm_dim" in own:
        return FeatureTagger  # written before classes were named; the files are an encoder's
    found = source.config.list_of("architectures", str, [])
    for name in found:
        for end, model_class in _ARCHITECTURES.items():
            if name.endswith(end):
                return model_class
    if (source.task_path / "modules.json").is_file():
        return TextEmbedder
    raise InputError(
        f"{directory} holds no tuned model: its config.json names {listed(found)}, "
        f"which ends in none of {', '.join(_ARCHITECTURES)}."
    )


def names_of(classifier, row):
    """list of str: the labels that the scores of a text, `[num_classes]`, give it; none for NaN."""
    if np.isnan(row).any():
        return []
    if classifier.problem_type == SINGLE:
        return [classifier.labels[row.argmax()]]
    return [name for name, score in zip(classifier.labels, row) if score >= 0.5]


def write_predictions(path, classifier, scores):
    """Writes a line for each text: its number, the label, and the score of every class.

    Several labels are separated by commas, and names with a comma are in quotes; a regression has
    none.

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
            label = [join_names(names_of(classifier, row))] if "label" in columns[:2] else []
            # Nine digits give a float32 back exactly.
            writer.writerow([number, *label, *(f"{score:.9g}" for score in row)])
