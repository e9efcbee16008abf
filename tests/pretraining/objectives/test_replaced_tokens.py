"""Replaced-token detection against ELECTRA's two models in `transformers`."""

import dataclasses

import keras
import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.objectives import ReplacedTokens
from keras_bert_impl.pretraining.objectives.replaced_tokens import DRAW_LIMIT, SampleTokens
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.helpers import TINY, difference, randomize
from tests.pretraining.helpers import masked_batch

ELECTRA = dataclasses.replace(
    TINY,
    architecture="electra",
    embedding_dim=10,
    use_pooler=False,
    dropout=0.0,
    attention_dropout=0.0,
)
GENERATOR = dataclasses.replace(ELECTRA, hidden_dim=8, num_heads=2, num_layers=1)
LENGTH = TINY.max_length


def batch(rows=4, seed=0):
    """Rows whose second half is padding, with one unused slot each."""
    features, labels, weights = masked_batch(TINY, rows, seed)
    draws = np.random.default_rng(seed + 1).integers(0, DRAW_LIMIT, (rows, 4))
    return features | {"replacement_draws": draws.astype("int32")}, labels, weights


@pytest.fixture(scope="module")
def pretrainer():
    model = Pretrainer(Encoder(ELECTRA), [ReplacedTokens(generator=GENERATOR)])
    randomize(model)
    return model


@pytest.fixture(scope="module")
def theirs(pretrainer, tmp_path_factory):
    """The discriminator, and a generator that shares its embeddings."""
    path = tmp_path_factory.mktemp("electra")
    pretrainer.save_pretrained(path)
    discriminator = transformers.ElectraForPreTraining.from_pretrained(path).double()
    generator = transformers.ElectraForMaskedLM.from_pretrained(path / "generator").double()
    shared = discriminator.electra.embeddings
    for name, weight in generator.electra.embeddings.state_dict().items():
        assert (weight == shared.state_dict()[name]).all()
    generator.electra.embeddings = shared
    generator.generator_lm_head.weight = shared.word_embeddings.weight
    return discriminator, generator


def their_features(features):
    return {
        "token_type_ids": torch.tensor(features["segment_ids"]),
        "attention_mask": torch.tensor(features["example_ids"]),
    }


def corrupted(features, labels, sampled):
    """Returns the discriminator's input ids, and which of them differ from the text."""
    ids, is_replaced = features["token_ids"].copy(), np.zeros((len(sampled), LENGTH), int)
    for row, slot in np.argwhere(features["masked_positions"] > 0):
        place = features["masked_positions"][row, slot]
        ids[row, place] = sampled[row, slot]
        is_replaced[row, place] = sampled[row, slot] != labels["masked_lm"][row, slot]
    return ids, is_replaced


def test_training_equals_pytorch(pretrainer, theirs):
    discriminator, generator = theirs
    model = Pretrainer.from_config(pretrainer.get_config())
    model.set_weights(pretrainer.get_weights())
    weights = {*discriminator.parameters(), *generator.parameters()}
    # Epsilon as in the step tests: Adam amplifies rounding by at most rate / epsilon = 10.
    optimizer = torch.optim.AdamW(weights, lr=1e-2, eps=1e-3, weight_decay=0.0)
    model.compile(AdamW(1e-2, weight_decay=0.0, epsilon=1e-3))
    replaced = 0
    for step in range(3):
        features, labels, sample_weight = batch(seed=step)
        outputs = model(features)
        ids, is_replaced = corrupted(features, labels, np.asarray(outputs["sampled_ids"]))
        replaced += is_replaced.sum()
        inputs = their_features(features)
        generated = generator(torch.tensor(features["token_ids"]), **inputs)
        slots = torch.tensor(features["masked_positions"])[..., None].expand(-1, -1, 40).long()
        words = torch.gather(generated.logits, 1, slots)
        probabilities = torch.softmax(words, -1).detach().numpy()
        # Samples by inverse CDF. No draw is close enough to a boundary to be ambiguous.
        u = features["replacement_draws"] / DRAW_LIMIT
        expected = (probabilities.cumsum(-1) <= u[..., None]).sum(-1)
        assert (np.asarray(outputs["sampled_ids"]) == expected).all()
        hidden = torch.tensor(labels["masked_lm"]).long()
        hidden[:, 3] = -100
        of_discriminator = discriminator(
            torch.tensor(ids), labels=torch.tensor(is_replaced), **inputs
        )
        real = features["example_ids"] == 1
        logits = np.asarray(outputs["replaced_token"])[real]
        # 1e-5 as elsewhere: float32 against float64 at these widths differs by a few 1e-6.
        assert difference(logits, of_discriminator.logits.detach().numpy()[real]) < 1e-5
        loss = torch.nn.functional.cross_entropy(words.flatten(0, 1), hidden.flatten())
        loss = loss + 50 * of_discriminator.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.reset_metrics()
        ours = model.train_on_batch(features, labels, sample_weight, return_dict=True)
        assert float(ours["loss"]) == pytest.approx(loss.item(), rel=1e-5), step
        right = (of_discriminator.logits.detach().numpy() > 0) == is_replaced
        assert float(ours["replaced_token_accuracy"]) == pytest.approx(right[real].mean())
    assert 0 < replaced <= 3 * 4 * 3


def test_generator_shares_embeddings(pretrainer):
    generator = pretrainer.get_layer("generator")
    ours, theirs = (model.embeddings for model in (pretrainer.encoder, generator))
    for name in ("token_embeddings", "position_embeddings", "segment_embeddings", "layer_norm"):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.projection is not theirs.projection
    paths = [variable.path for variable in pretrainer.weights]
    assert len(set(paths)) == len(paths)


def test_splitting_the_batch_changes_nothing(pretrainer):
    features, labels, weights = batch()
    whole = pretrainer.compute_loss(features, labels, pretrainer(features), weights)
    pretrainer.compile(AdamW(0.0, weight_decay=0.0), accumulation_steps=2)
    parts = pretrainer.train_on_batch(features, labels, weights, return_dict=True)
    assert float(parts["loss"]) == pytest.approx(float(whole), rel=1e-5)


def test_samples_follow_the_distribution():
    logits = np.array([0.0, 1.0, -1.0, 2.0, -np.inf], "float32")
    count = 20_000
    positions = np.ones((count, 1), "int32")
    draws = np.random.default_rng(0).integers(0, DRAW_LIMIT, (count, 1)).astype("int32")
    draws[:2, 0] = 0, DRAW_LIMIT - 1
    ids, samples = SampleTokens()(
        np.full((count, 3), 9, "int32"), positions, np.tile(logits, (count, 1, 1)), draws
    )
    ids, samples = np.asarray(ids), np.asarray(samples)[:, 0]
    assert (ids == np.stack([np.full(count, 9), samples, np.full(count, 9)], axis=1)).all()
    assert samples[0] == 0 and samples[1] >= 3
    expected = count * np.exp(logits[:4]) / np.exp(logits[:4]).sum()
    counts = np.bincount(samples, minlength=5)
    # Chi-square with three degrees of freedom: mean 3, variance 6; five deviations. Rounding may
    # give the last word, of probability 0, the highest draw.
    assert ((counts[:4] - expected) ** 2 / expected).sum() < 3 + 5 * np.sqrt(6)
    assert counts[4] <= 1


@pytest.mark.parametrize("vocabulary_size", [255, 256, 257, 1000])
def test_samples_from_large_vocabularies(vocabulary_size):
    draw = np.random.default_rng(vocabulary_size)
    logits = draw.normal(scale=3.0, size=(50, 8, vocabulary_size)).astype("float32")
    draws = draw.integers(0, DRAW_LIMIT, (50, 8)).astype("int32")
    positions = np.ones((50, 8), "int32")
    _, samples = SampleTokens()(np.zeros((50, 2), "int32"), positions, logits, draws)
    sums = np.exp(logits.astype("float64")).cumsum(axis=-1)
    sums /= sums[..., -1:]
    ends = np.take_along_axis(sums, np.asarray(samples)[..., None], axis=-1)[..., 0]
    starts = (
        ends
        - np.take_along_axis(
            np.diff(sums, axis=-1, prepend=0.0), np.asarray(samples)[..., None], axis=-1
        )[..., 0]
    )
    # Float32 rounding of sums up to 1 over the vocabulary, and of the softmax itself.
    rounding = 2 * vocabulary_size * 2.0**-24
    parts = draws / DRAW_LIMIT
    assert (starts - rounding <= parts).all() and (parts <= ends + rounding).all()


def test_directory_and_keras_file(pretrainer, tmp_path):
    features, _, _ = batch()
    expected = pretrainer(features)
    pretrainer.save_pretrained(tmp_path / "model")
    pretrainer.save(tmp_path / "model.keras")
    for loaded in (
        Pretrainer.from_pretrained(tmp_path / "model", ["replaced_token"]),
        keras.models.load_model(tmp_path / "model.keras"),
    ):
        outputs = loaded(features)
        for name, values in expected.items():
            np.testing.assert_array_equal(outputs[name], values)


def test_dropout_override_applies_to_both_encoders(pretrainer, tmp_path):
    pretrainer.save_pretrained(tmp_path)
    changed = {"dropout": 0.0, "attention_dropout": 0.25}
    model = Pretrainer.from_pretrained(tmp_path, ["replaced_token"], **changed)
    for config in model.encoder.config, model.get_layer("generator").config:
        assert (config.dropout, config.attention_dropout) == (0.0, 0.25)


def test_default_generator_is_a_quarter_of_the_encoder():
    model = Pretrainer(Encoder(ELECTRA, dtype="mixed_bfloat16"), ["replaced_token"])
    config = model.get_layer("generator").config
    assert (config.hidden_dim, config.num_heads, config.intermediate_dim) == (4, 1, 6)
    assert config.num_layers == ELECTRA.num_layers
    outputs = model(batch()[0])
    types = {name: keras.backend.standardize_dtype(value.dtype) for name, value in outputs.items()}
    assert types == {"masked_lm": "float32", "replaced_token": "float32", "sampled_ids": "int32"}


def test_rejects_invalid_arguments():
    generator = dataclasses.replace(GENERATOR, vocabulary_size=41)
    with pytest.raises(InputError, match="the generator must have the encoder's vocabulary_size"):
        Pretrainer(Encoder(ELECTRA), [ReplacedTokens(generator=generator)])
    with pytest.raises(ValueError, match="must not be empty or share outputs"):
        Pretrainer(Encoder(ELECTRA), ["masked_lm", "replaced_token"])
