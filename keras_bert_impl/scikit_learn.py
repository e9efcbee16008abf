"""A scikit-learn estimator for `cross_val_score`, `GridSearchCV`, `Pipeline` and `clone`."""

from typing import Any

import numpy as np

from keras_bert_impl.utils.version import install_command

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise ImportError(
        f"keras_bert_impl.scikit_learn needs scikit-learn: {install_command('metrics')}"
    ) from error

from keras_bert_impl.tasks.text_classification.model import TextClassifier
from keras_bert_impl.utils.errors import InputError


class BertClassifier(ClassifierMixin, BaseEstimator):
    """scikit-learn estimator that fine-tunes a `TextClassifier` on texts with one label each.

    Args:
        model: model directory or name; see `TextClassifier.from_pretrained`.
        epochs, batch_size, class_weight: see `TextClassifier.fit`.
        learning_rate: see `TextClassifier.compile`.
        max_length: texts are truncated to this many tokens. Default: the model's limit, or 128.
        seed: determines the head's initial weights, the order of the texts and dropout.
        verbose: see Keras's `fit`.

    Attributes:
        classes_: labels `[classes]`, sorted.
        classifier_: the fitted `TextClassifier`.

    Example:
        from sklearn.model_selection import cross_val_score
        from keras_bert_impl.scikit_learn import BertClassifier
        texts, labels = ["good film", "a joy", "dull", "bad film"], ["pos", "pos", "neg", "neg"]
        print(cross_val_score(BertClassifier("path/to/model"), texts, labels, cv=2))
    """

    def __init__(
        self,
        model: Any,
        epochs: int = 3,
        batch_size: int = 32,
        learning_rate: float | None = None,
        max_length: int | None = None,
        class_weight: Any = None,
        seed: int = 0,
        verbose: int | str = 0,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_length = max_length
        self.class_weight = class_weight
        self.seed = seed
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BertClassifier":
        """Fine-tunes the model from its pre-trained weights.

        Args:
            X: texts `[texts]`, or pairs of texts `[texts, 2]`.
            y: a label for each text, of any type.
            sample_weight: weight of each text in the loss.
        """
        import keras

        y = np.asarray(y)
        check_classification_targets(y)
        if y.ndim != 1:
            raise InputError(f"y must have a label for each text. Received: shape {y.shape}")
        self.classes_, numbers = np.unique(y, return_inverse=True)
        names = [str(label) for label in self.classes_]
        if len(names) < 2:
            raise InputError(f"y must have at least two classes. Received: {names}")
        keras.utils.set_random_seed(self.seed)
        self.classifier_ = TextClassifier.from_pretrained(
            self.model, labels=names, max_length=self.max_length
        )
        self.classifier_.compile(learning_rate=self.learning_rate, seed=self.seed)
        weights = self.class_weight
        if isinstance(weights, dict):
            weights = {str(label): weight for label, weight in weights.items()}
        self.classifier_.fit(
            _convert_to_texts(X),
            [names[number] for number in numbers],
            batch_size=self.batch_size,
            epochs=self.epochs,
            class_weight=weights,
            sample_weight=sample_weight,
            verbose=self.verbose,
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probability of each of `classes_`, float32 `[texts, classes]`."""
        check_is_fitted(self)
        return np.asarray(self.classifier_.predict(_convert_to_texts(X), verbose=self.verbose))

    def predict(self, X: Any) -> np.ndarray:
        """Returns the predicted label of each text."""
        scores = self.predict_proba(X)
        return self.classes_[self.classifier_.decide(scores)]


def _convert_to_texts(values):
    """Converts a list, array, column or data frame of texts or pairs to a list."""
    if hasattr(values, "to_numpy"):  # Iteration over a data frame would yield the column names.
        values = values.to_numpy()
    rows = values.tolist() if isinstance(values, np.ndarray) else list(values)
    # The data frame has one column.
    if any(isinstance(row, list) and len(row) == 1 for row in rows):
        rows = [row[0] for row in rows]
    return [tuple(row) if isinstance(row, list) else row for row in rows]
