"""Zero-shot classification, against the pipeline of `transformers`."""

import numpy as np
import pytest
import transformers

from keras_bert_impl.tasks import TextClassifier, zero_shot
from keras_bert_impl.utils.errors import InputError
from tests.helpers import randomize
from tests.tasks.helpers import classifier, encoder, tokenizer

NLI = ["Contradiction", "neutral", "ENTAILMENT"]
TEXTS = ["the plot is great", "what a dull film, very awful", "joy"]
LABELS = ["good", "bad film", "plot"]
TEMPLATE = "the film is {}, is it"


@pytest.fixture(scope="module")
def model():
    model = classifier(labels=NLI)
    randomize(model)
    return model


@pytest.mark.parametrize("labels", [LABELS, LABELS[:1]])
@pytest.mark.parametrize("multi_label", [False, True])
def test_equals_transformers(model, tmp_path, labels, multi_label):
    model.save_pretrained(tmp_path)
    pipeline = transformers.ZeroShotClassificationPipeline(
        model=transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).double(),
        tokenizer=transformers.AutoTokenizer.from_pretrained(tmp_path),
        framework="pt",
        device="cpu",
    )
    theirs = pipeline(TEXTS, labels, hypothesis_template=TEMPLATE, multi_label=multi_label)
    received = zero_shot(model, TEXTS, labels, TEMPLATE, multi_label, batch_size=4)
    assert received.shape == (3, len(labels)) and received.dtype == "float32"
    for row, their in zip(received, theirs):
        scores = dict(zip(their["labels"], their["scores"]))
        # A softmax does not amplify the 1e-5 by which logits may differ.
        np.testing.assert_allclose(row, [scores[label] for label in labels], atol=1e-5)


def test_exclusive_labels_add_up_to_1(model):
    scores = zero_shot(model, TEXTS, LABELS)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)
    assert zero_shot(model, [], LABELS).shape == (0, 3)


def test_finds_entailment_and_contradiction_by_name(model):
    pair = TextClassifier(encoder(), tokenizer(), labels=["entailment", "not_entailment"])
    probabilities = pair.predict([("joy", "the film is good, is it")], verbose=0)
    received = zero_shot(pair, ["joy"], ["good"], TEMPLATE)
    np.testing.assert_allclose(received[0, 0], probabilities[0, 0], atol=1e-6)
    order = [1, 0, 2]  # transformers would take "neutral" for the opposite
    reordered = TextClassifier(model.encoder, tokenizer(), labels=[NLI[i] for i in order])
    kernel, bias = (weight.numpy() for weight in model.head_layer.dense.weights)
    reordered.head_layer.dense.set_weights([kernel[:, order], bias[order]])
    scores, reordered_scores = (
        zero_shot(m, TEXTS, LABELS, multi_label=True) for m in (model, reordered)
    )
    np.testing.assert_allclose(scores, reordered_scores, atol=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((["a"], "good"), "candidate_labels must be a list"),
        ((["a"], []), "candidate_labels must be a list"),
        ((["a"], ["good", 3]), "candidate_labels must be a list of strings"),
        (("a", ["good"]), "expected a list of texts"),
        ((["a"], ["good"], "It is."), "hypothesis_template must contain {}"),
        (([("a", "b")], ["good"]), "text 0: a segment is a tuple of length 2"),
    ],
)
def test_rejects_invalid_input(model, arguments, message):
    with pytest.raises(InputError, match=message):
        zero_shot(model, *arguments)


@pytest.mark.parametrize(
    "labels, message",
    [
        (["a", "b", "c"], "must have one label that starts with 'entail'"),
        (["entailment", "b", "c"], "must have one label that starts with .contradict"),
    ],
)
def test_rejects_other_classifiers(labels, message):
    with pytest.raises(InputError, match=message):
        zero_shot(classifier(labels=labels), ["a"], ["good"])
    with pytest.raises(
        InputError, match="single_label_classification, not multi_label_classification"
    ):
        multi = classifier(labels=NLI, problem_type="multi_label_classification")
        zero_shot(multi, ["a"], ["good"])
