"""The pre-trainer against `transformers`, and its loss against a closed form."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.helpers import TINY, randomize

LENGTH, PREDICTIONS, EXAMPLES = 12, 4, 2
BOTH, WORDS = ["masked_lm", "next_sentence"], ["masked_lm"]


@pytest.fixture
def pretrainer():
    model = Pretrainer(Encoder(TINY), BOTH)
    randomize(model)
    return model


def batch(rows=3, seed=0):
    """Features, labels and weights with one example per row and some unused slots at row ends."""
    draw = np.random.default_rng(seed)
    shape = (rows, LENGTH)
    features = {
        "token_ids": draw.integers(1, TINY.vocabulary_size, shape),
        "segment_ids": draw.integers(0, TINY.num_segments, shape),
        "position_ids": np.tile(np.arange(LENGTH), (rows, 1)),
        "example_ids": np.ones(shape),
        "masked_positions": draw.integers(1, LENGTH, (rows, PREDICTIONS)),
        "cls_positions": np.zeros((rows, EXAMPLES)),
    }
    labels = {
        "masked_lm": draw.integers(1, TINY.vocabulary_size, (rows, PREDICTIONS)),
        "next_sentence": draw.integers(0, 2, (rows, EXAMPLES)),
    }
    weights = {
        "masked_lm": np.arange(rows * PREDICTIONS).reshape(rows, PREDICTIONS) % 3 > 0,
        "next_sentence": np.tile([1, 0], (rows, 1)),
    }

    def all_as(dtype, arrays):
        return {name: np.asarray(array, dtype) for name, array in arrays.items()}

    return all_as("int32", features), all_as("int32", labels), all_as("float32", weights)


def batch_of_words(**arguments):
    """Same as `batch`, for a masked language model only."""
    features, labels, weights = batch(**arguments)
    features.pop("cls_positions")
    labels.pop("next_sentence"), weights.pop("next_sentence")
    return features, labels, weights


def test_logits_equal_those_of_transformers(pretrainer, tmp_path):
    features, _, _ = batch()
    pretrainer.save_pretrained(tmp_path)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path).double().eval()
    with torch.no_grad():
        outputs = theirs(
            input_ids=torch.tensor(features["token_ids"]),
            token_type_ids=torch.tensor(features["segment_ids"]),
        )
    ours = pretrainer(features)
    positions = features["masked_positions"][:, :, None]
    words = np.take_along_axis(outputs.prediction_logits.numpy(), positions, axis=1)
    # 1e-5 as elsewhere: float32 against float64 at these widths differs by a few 1e-6.
    assert np.abs(np.asarray(ours["masked_lm"]) - words).max() < 1e-5
    sentences = outputs.seq_relationship_logits.numpy()
    assert np.abs(np.asarray(ours["next_sentence"])[:, 0] - sentences).max() < 1e-5


def test_training_equals_pytorch(tmp_path):
    config = dataclasses.replace(TINY, dropout=0.0, attention_dropout=0.0)
    model = Pretrainer(Encoder(config), BOTH)
    randomize(model)
    # Epsilon as in the step tests: Adam amplifies rounding by at most rate / epsilon = 10.
    model.compile(AdamW(1e-2, weight_decay=0.01, epsilon=1e-3, global_clipnorm=1.0))
    model.save_pretrained(tmp_path)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path).double().train()
    decayed, undecayed = [], []
    for name, weight in theirs.named_parameters():
        (undecayed if name.endswith("bias") or "LayerNorm" in name else decayed).append(weight)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": undecayed, "weight_decay": 0.0}],
        lr=1e-2,
        eps=1e-3,
    )
    for step in range(6):
        data = batch(seed=step)
        model.reset_metrics()
        ours = model.train_on_batch(*data, return_dict=True)["loss"]
        loss = pytorch_loss(theirs, *data)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        assert float(ours) == pytest.approx(loss.item(), rel=1e-5), step


def pytorch_loss(model, features, labels, weights):
    outputs = model(
        input_ids=torch.tensor(features["token_ids"]),
        token_type_ids=torch.tensor(features["segment_ids"]),
    )
    rows = torch.arange(len(features["token_ids"]))[:, None]
    words = outputs.prediction_logits[rows, torch.tensor(features["masked_positions"])]
    losses = torch.nn.functional.cross_entropy(
        words.flatten(0, 1), torch.tensor(labels["masked_lm"]).long().flatten(), reduction="none"
    )
    used = torch.tensor(weights["masked_lm"]).flatten()
    is_next = torch.tensor(labels["next_sentence"][:, 0]).long()
    return (losses * used).sum() / used.sum() + torch.nn.functional.cross_entropy(
        outputs.seq_relationship_logits, is_next
    )


@pytest.mark.parametrize("objectives", [BOTH, WORDS])
def test_round_trip_is_exact(objectives, tmp_path):
    model = Pretrainer(Encoder(TINY), objectives)
    randomize(model)
    model.save_pretrained(tmp_path)
    loaded = Pretrainer.from_pretrained(tmp_path, objectives)
    for ours, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("objectives", [BOTH, pytest.param(WORDS, marks=pytest.mark.slow)])
def test_keras_file(objectives, tmp_path):
    features, _, _ = batch()
    if objectives == WORDS:
        features.pop("cls_positions")
    model = Pretrainer(Encoder(TINY), objectives)
    randomize(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    keras.tree.map_structure(np.testing.assert_array_equal, loaded(features), model(features))


def test_keras_file_resumes_training(pretrainer, tmp_path):
    pretrainer.encoder.blocks[0].trainable = False
    pretrainer.compile(AdamW(1e-3, global_clipnorm=1.0), dropout_seed=3, accumulation_steps=3)
    pretrainer.train_on_batch(*batch())
    pretrainer.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    pretrainer.reset_metrics()
    logs = [model.train_on_batch(*batch(seed=1)) for model in (pretrainer, loaded)]
    assert logs[0] == logs[1]
    assert int(loaded.optimizer.iterations) == 2
    for pair in zip(pretrainer.get_weights(), loaded.get_weights()):
        np.testing.assert_array_equal(*pair)


def test_moving_averages_without_next_sentence():
    features, labels, weights = batch_of_words()
    model = Pretrainer(Encoder(TINY), WORDS)
    model.compile(AdamW(1e-3, use_ema=True))
    model.fit(features, labels, sample_weight=weights, batch_size=3, epochs=2, verbose=0)
    averages = model.optimizer._model_variables_moving_average
    for variable, average in zip(model.trainable_weights, averages, strict=True):
        np.testing.assert_array_equal(variable, average)


def test_unused_pooler_is_unchanged_without_a_warning(recwarn):
    features, labels, weights = batch_of_words()
    model = Pretrainer(Encoder(TINY), WORDS)
    before = [np.array(variable) for variable in model.encoder.pooler.variables]
    model.compile(AdamW(1e-3, weight_decay=0.1))
    model.train_on_batch(features, labels, weights)
    for old, variable in zip(before, model.encoder.pooler.variables, strict=True):
        np.testing.assert_array_equal(variable, old)
    assert not [warning for warning in recwarn if "Gradients" in str(warning.message)]


def test_loss_is_the_sum_of_two_means_over_labeled_positions(pretrainer):
    features, labels, weights = batch()
    pretrainer.compile(AdamW(1e-3))
    logits = pretrainer(features)
    expected = 0.0
    for name in labels:
        scores = np.asarray(logits[name], "float64")
        log_sums = np.log(np.exp(scores).sum(axis=-1))
        label_scores = np.take_along_axis(scores, labels[name][..., None], axis=-1)[..., 0]
        losses = log_sums - label_scores
        expected += (losses * weights[name]).sum() / weights[name].sum()
    metrics = pretrainer.evaluate(features, labels, sample_weight=weights, verbose=0, batch_size=3)
    assert metrics[0] == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_several_batches_is_the_mean_over_their_labels():
    """As of held-out rows, whose last batch is padded with empty rows."""
    model = Pretrainer(Encoder(TINY), WORDS)
    randomize(model)
    model.compile(AdamW(1e-3))
    full, padded = batch_of_words(rows=4), batch_of_words(rows=4, seed=1)
    padded[2]["masked_lm"][1:] = 0
    counts = [weights["masked_lm"].sum() for _, _, weights in (full, padded)]
    losses = [model.test_on_batch(*each)[0] for each in (full, padded)]
    together = [
        {name: np.concatenate([first[name], second[name]]) for name in first}
        for first, second in zip(full, padded)
    ]
    data = tf.data.Dataset.from_tensor_slices(tuple(together)).batch(4)
    scores = model.evaluate(data, return_dict=True, verbose=0)
    assert scores["loss"] == pytest.approx(scores["masked_lm_loss"], rel=1e-6)
    assert scores["loss"] == pytest.approx(np.average(losses, weights=counts), rel=1e-6)
    assert counts[1] < counts[0] / 2 and abs(losses[0] - losses[1]) > 1e-3


def test_accuracy_counts_the_highest_logits(pretrainer):
    features, labels, weights = batch(rows=6)
    pretrainer.compile(AdamW(1e-3))
    logits = pretrainer(features)
    expected = {}
    for name in labels:
        highest = np.asarray(logits[name]).argmax(axis=-1)
        labels[name][::2] = highest[::2]  # random labels would almost never be right
        right = (highest == labels[name]) * weights[name]
        expected[name] = right.sum() / weights[name].sum()
    metrics = pretrainer.evaluate(
        features, labels, sample_weight=weights, verbose=0, batch_size=4, return_dict=True
    )
    for name, accuracy in expected.items():
        assert 0.4 < accuracy < 1.0
        assert metrics[f"{name}_accuracy"] == pytest.approx(accuracy, rel=1e-6)


def test_packing_does_not_change_logits(pretrainer):
    features, _, _ = batch(rows=2)
    half = LENGTH // 2
    alone = {name: value.copy() for name, value in features.items()}
    alone["example_ids"][:, half:] = 0
    alone["masked_positions"] %= half
    packed = {
        name: np.concatenate([alone[name][0, :half], alone[name][1, :half]])[None]
        for name in ("token_ids", "segment_ids", "position_ids")
    }
    packed["example_ids"] = np.repeat([[1, 2]], half, axis=1).astype("int32")
    moved = alone["masked_positions"] + np.array([[0], [half]])
    packed["masked_positions"] = moved.reshape(1, -1).astype("int32")
    packed["cls_positions"] = np.array([[0, half]], "int32")
    apart, together = pretrainer(alone), pretrainer(packed)
    # Summation order differs: a few float32 units on logits of order 1.
    words = np.asarray(together["masked_lm"]).reshape(np.asarray(apart["masked_lm"]).shape)
    assert np.abs(words - np.asarray(apart["masked_lm"])).max() < 1e-5
    sentences = np.asarray(together["next_sentence"])[0]
    assert np.abs(sentences - np.asarray(apart["next_sentence"])[:, 0]).max() < 1e-5


def test_logits_are_float32_under_mixed_precision():
    model = Pretrainer(Encoder(TINY, dtype="mixed_bfloat16"), BOTH)
    outputs = model(batch()[0])
    types = {keras.backend.standardize_dtype(logits.dtype) for logits in outputs.values()}
    assert types == {"float32"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"loss": "mse"}, "leave out loss: the objectives define the losses"),
        ({"loss_weights": {"masked_lm": 0.0}}, "leave out loss_weights"),
        ({"metrics": ["accuracy"]}, "must be a dict keyed by output: 'masked_lm'"),
    ],
)
def test_rejects_other_losses_and_metrics(pretrainer, arguments, message):
    with pytest.raises(InputError, match=message):
        pretrainer.compile(AdamW(1e-3), **arguments)


def test_error_names_a_wrong_head(pretrainer, tmp_path):
    from safetensors.numpy import load_file, save_file

    pretrainer.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["cls.predictions.bias"] = np.zeros(7, "float32")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        InputError, match=r"cls\.predictions\.bias must have shape .* Received: \(7,"
    ):
        Pretrainer.from_pretrained(tmp_path, BOTH)
