"""Zero-shot classification with a natural language inference model."""

from collections.abc import Iterable

import numpy as np

from keras_bert_impl.data.batches.blocks import MOST_CHARACTERS, MOST_TEXTS, in_blocks
from keras_bert_impl.tasks.base.fitting import outputs_of_batch, predict_sorted
from keras_bert_impl.tasks.text_classification.model import SINGLE, TextClassifier
from keras_bert_impl.utils.errors import InputError, listed


def zero_shot(
    classifier: TextClassifier,
    texts: Iterable[str],
    candidate_labels: Iterable[str],
    hypothesis_template: str = "This example is {}.",
    multi_label: bool = False,
    batch_size: int = 32,
) -> np.ndarray:
    """Returns the probability of each candidate label for each text.

    Each label is inserted into a hypothesis. An NLI classifier, for example trained on MNLI,
    predicts whether the text entails the hypothesis.

    Args:
        classifier: `TextClassifier` of text pairs. One of its label names must start with
            `"entail"`. If labels are scored independently and the classifier has more than two
            classes, another label name must start with `"contradict"`. Case is ignored.
        hypothesis_template: hypothesis with `{}` in place of the label.
        multi_label: if False, the probabilities are the softmax of the entailment logits over all
            candidate labels. If True, each candidate label is scored independently, with a softmax
            over entailment and contradiction. If there is only one candidate label, it is always
            scored independently.
        batch_size: number of (text, label) pairs per batch.

    Returns:
        float32 array [texts, labels], in the order of `texts` and `candidate_labels`.

    Raises:
        InputError: `candidate_labels` is not a list of strings, the template does not contain `{}`,
            or the classifier does not have the required label names.

    Source: Yin et al. 2019, "Benchmarking Zero-shot Text Classification", section 5.

    Example:
        from keras_bert_impl.tasks import zero_shot
        classifier = TextClassifier.from_pretrained("path/to/model-tuned-on-mnli")
        zero_shot(classifier, ["The match ended 2:1."], ["sport", "politics"])  # such as [[0.9, 0.1]]
    """
    labels = list(candidate_labels)
    is_list = not isinstance(candidate_labels, str) and labels
    if not is_list or not all(isinstance(label, str) for label in labels):
        raise InputError(
            f"candidate_labels must be a list of strings. Received: {candidate_labels!r:.60}"
        )
    if "{}" not in hypothesis_template:
        raise InputError(
            f"hypothesis_template must contain {{}}. Received: {hypothesis_template!r:.60}"
        )
    if isinstance(texts, (str, bytes)):
        raise InputError(f"expected a list of texts. Received: one text, {texts!r:.40}")
    entailment, contradiction = _find_classes(classifier)
    hypotheses = [hypothesis_template.replace("{}", label) for label in labels]
    is_alone = multi_label or len(labels) == 1
    if is_alone and contradiction is None:
        raise InputError(
            "to score labels independently, the classifier must have one label that starts with "
            f"'contradict'. It has {listed(classifier.labels)}."
        )

    def compute_probabilities(texts):
        pairs = [(text, hypothesis) for text in texts for hypothesis in hypotheses]
        logits = _compute_logits(classifier, pairs, batch_size)
        logits = logits.reshape(len(texts), len(labels), classifier.num_classes)
        if is_alone:
            return _compute_softmax(logits[:, :, [entailment, contradiction]])[:, :, 0]
        return _compute_softmax(logits[:, :, entailment])

    most_texts, most_characters = (max(1, n // len(labels)) for n in (MOST_TEXTS, MOST_CHARACTERS))
    return in_blocks(compute_probabilities, list(texts), most_texts, most_characters)


def _find_classes(classifier):
    if classifier.problem_type != SINGLE:
        raise InputError(f"the classifier must be for {SINGLE}, not {classifier.problem_type}.")
    names = [name.lower() for name in classifier.labels]
    entailed = [i for i, name in enumerate(names) if name.startswith("entail")]
    against = [i for i, name in enumerate(names) if name.startswith("contradict")]
    if len(entailed) != 1:
        raise InputError(
            "the classifier must have one label that starts with 'entail'. It has "
            f"{listed(classifier.labels)}; load it with labels=[...], the names of its classes."
        )
    if not against and len(names) == 2:
        against = [1 - entailed[0]]
    return entailed[0], against[0] if len(against) == 1 else None


def _compute_logits(classifier, pairs, batch_size):
    """Returns logits, float32 [pairs, classes]."""
    if not pairs:
        return np.zeros([0, classifier.num_classes], "float32")
    tokenized, _ = classifier.rows(classifier.as_texts(pairs))

    # `TextClassifier.predict` returns probabilities, from which logits cannot be computed.
    def compute_logits(data):
        return np.concatenate([outputs_of_batch(classifier, features) for (features,) in data])

    return predict_sorted(classifier, compute_logits, tokenized, batch_size)


def _compute_softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
