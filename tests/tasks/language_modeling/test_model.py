"""Filling in masked words."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.cli.main import main
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.runs.run import load_tuned
from keras_bert_impl.tasks.language_modeling.model import MaskedLM
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.helpers import randomize
from tests.tasks.helpers import encoder, tokenizer, weights


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    pretrainer = Pretrainer(encoder(dropout=0.0), ["masked_lm", "next_sentence"])
    randomize(pretrainer)
    pretrainer.save_pretrained(path, tokenizer())
    return path


def test_equals_transformers(directory):
    texts = ["the film is [MASK]", "[MASK] plot, very [MASK]"]
    fillings = MaskedLM.from_pretrained(directory).fill(texts, top_k=3)
    assert [len(masks) for masks in fillings] == [1, 2]
    theirs = transformers.BertForMaskedLM.from_pretrained(directory).double().eval()
    for text, masks in zip(texts, fillings, strict=True):
        ids = np.asarray(tokenizer()([text])["token_ids"])
        with torch.no_grad():
            logits = theirs(input_ids=torch.tensor(ids)).logits[0].numpy()
        places = np.flatnonzero(ids[0] == tokenizer().mask_id)
        for place, mask in zip(places, masks, strict=True):
            scores = np.exp(logits[place]) / np.exp(logits[place]).sum()
            best = np.argsort(-scores)[:3]
            assert [filling.token for filling in mask] == [tokenizer().vocabulary[i] for i in best]
            # A softmax does not amplify the 1e-5 by which logits may differ.
            assert [filling.score for filling in mask] == pytest.approx(scores[best], abs=1e-5)


def test_candidates_keep_their_probabilities(directory):
    model = MaskedLM.from_pretrained(directory)
    texts = ["the film is [MASK]", "[MASK] plot, very [MASK]"]
    everything = model.fill(texts, top_k=tokenizer().vocabulary_size)
    # "Dull" is a single subword, although the vocabulary has another spelling.
    some = model.fill(texts, candidates=["good", "Dull", "[UNK]", "good"])
    for all_of_mask, of_mask in zip(sum(everything, []), sum(some, []), strict=True):
        expected = [f for f in all_of_mask if f.token in ("good", "dull", "[UNK]")]
        assert of_mask == expected and len(of_mask) == 3
    assert model.fill(texts, top_k=1, candidates=["film"])[1][0][0].token == "film"


def test_command_takes_candidates(directory, capsys):
    text = "the film is [MASK]"
    command = ["fill-mask", str(directory), "--candidate", "good", "--candidate", "bad"]
    assert main([*command, "--json", text]) == 0
    answers = json.loads(capsys.readouterr().out)
    fillings = MaskedLM.from_pretrained(directory).fill([text], candidates=["good", "bad"])
    expected = [[filling._asdict() for filling in mask] for mask in fillings[0]]
    assert answers == [{"text": text, "masks": expected}]


def test_fill_takes_texts_in_the_forms_of_predict(directory):
    model = MaskedLM.from_pretrained(directory)
    texts = ["the film is [MASK]", "[MASK] plot"]
    expected = model.fill(texts)
    table = {"text": texts}
    for batch in (table, [{"text": text} for text in texts], np.array(texts), tf.constant(texts)):
        assert model.fill(batch) == expected
    tokens = [filling.token for filling in model.fill(texts[0])[0]]
    assert tokens == [filling.token for filling in expected[0][0]]
    assert model.fill([]) == []
    plain = ["the film is good", "a plot"]
    whole = model.pseudo_perplexity(plain)
    assert model.pseudo_perplexity({"text": plain}).perplexity == whole.perplexity
    alone = model.pseudo_perplexity(plain[0])
    assert alone.log_likelihoods[0] == pytest.approx(whole.log_likelihoods[0], abs=1e-5)


def test_keras_file(directory, tmp_path):
    model = MaskedLM.from_pretrained(directory)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    texts = ["the film is [MASK]"]
    assert loaded.fill(texts) == model.fill(texts)


def test_rejects_invalid_input(directory, tmp_path):
    model = MaskedLM.from_pretrained(directory)
    with pytest.raises(InputError, match=r"text 1 has no \[MASK\]"):
        model.fill(["a [MASK]", "a film"])
    with pytest.raises(InputError, match="text 0 is missing"):
        model.fill([None])
    for top_k in (0, -1, 1.5, None):
        with pytest.raises(InputError, match="top_k must be a positive integer"):
            model.fill(["a [MASK]"], top_k=top_k)
    with pytest.raises(InputError, match="batch_size must be a positive integer"):
        model.pseudo_perplexity(["a film"], batch_size=0)
    for candidates, message in (
        (["good", "not bad"], "'not bad' must be a single token. Its tokens are 'not', 'bad'"),
        ([" "], "' ' must be a single token. Its tokens are none"),
        ("good", "must be a list of words"),
        ([], "must be a list of words"),
    ):
        with pytest.raises(InputError, match=message):
            model.fill(["a [MASK]"], candidates=candidates)
    encoder().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="cls.predictions.transform.dense.weight is missing"):
        MaskedLM.from_pretrained(tmp_path)


# === Training ===

# Two kinds of texts, so that the other words determine a masked one.
TEXTS = ["good great joy good great joy good great", "bad awful dull bad awful dull bad awful"] * 20


def fresh(**arguments):
    return MaskedLM(encoder(dropout=0.0, use_pooler=False), tokenizer(), **arguments)


def test_learns_from_texts_and_round_trips_through_files(tmp_path):
    model = fresh(max_length=16, mask_rate=0.3)
    model.compile(AdamW(1e-2), seed=1)
    history = model.fit(
        TEXTS, batch_size=8, epochs=12, validation_data=TEXTS[:10], verbose=0
    ).history
    assert history["loss"][-1] < 0.6 < 2 < history["loss"][0]  # log 2: which kind of words
    assert history["accuracy"][-1] > 0.5
    scores = model.evaluate(TEXTS, return_dict=True, verbose=0)
    assert scores == model.evaluate(TEXTS, return_dict=True, verbose=0)  # same masks
    assert history["val_loss"][-1] == pytest.approx(scores["loss"], abs=0.3)
    model.save_pretrained(tmp_path / "model")
    loaded = load_tuned(tmp_path / "model")
    assert type(loaded) is MaskedLM and (loaded.mask_rate, loaded.mask_unit) == (0.3, "token")
    np.testing.assert_array_equal(weights(loaded), weights(model))
    text = "good [MASK] joy"
    ((received,),), ((expected,),) = loaded.fill([text]), model.fill([text])
    assert [filling.token for filling in received] == [filling.token for filling in expected]
    scores = [filling.score for filling in expected]
    assert [filling.score for filling in received] == pytest.approx(scores, abs=1e-6)
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path / "model").double().eval()
    ids = torch.tensor(np.asarray(tokenizer()([text])["token_ids"]))
    with torch.no_grad():
        probabilities = theirs(input_ids=ids).logits[0, 2].softmax(-1).numpy()
    assert model.fill([text], top_k=1)[0][0][0].score == pytest.approx(
        probabilities.max(), abs=1e-5
    )
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert (again.max_length, again.mask_rate) == (16, 0.3)


def test_loss_equals_transformers(directory):
    model = MaskedLM.from_pretrained(directory)
    model.compile(metrics=[])
    batch = {name: np.asarray(value) for name, value in tokenizer()(TEXTS[:4]).items()}
    draw = np.random.default_rng(0)
    labels = np.full(batch["token_ids"].shape, -100)
    positions = np.array([[1, 3, 0], [2, 0, 0], [4, 5, 6], [1, 0, 0]])
    targets = np.where(positions > 0, draw.integers(5, 18, positions.shape), -100)
    np.put_along_axis(labels, positions, targets, axis=1)
    loss = model.evaluate({**batch, "masked_positions": positions}, targets, verbose=0)
    theirs = transformers.BertForMaskedLM.from_pretrained(directory).double().eval()
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(batch["token_ids"]), labels=torch.tensor(labels)
        ).loss
    assert loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.slow
def test_masks_differ_per_epoch_and_resume_exactly(monkeypatch):
    def fitted(*parts):
        model = fresh(max_length=16)
        model.compile(AdamW(1e-3), seed=4)
        for initial_epoch, epochs in parts:
            model.fit(TEXTS, batch_size=8, epochs=epochs, initial_epoch=initial_epoch, verbose=0)
        return weights(model)

    np.testing.assert_array_equal(fitted((0, 3)), fitted((0, 1), (1, 3)))
    masks = fresh(max_length=16)._masks
    features = tokenizer()(TEXTS)
    first, again, second = (masks(features, 0, number)[0]["token_ids"] for number in (0, 0, 1))
    assert (first.numpy() == again.numpy()).all() and (first.numpy() != second.numpy()).any()


@pytest.mark.parametrize("unit", ["token", "word"])
def test_batches_have_masked_features(unit):
    masks = fresh(max_length=32, mask_unit=unit)._masks
    texts = ["good", "a " * 9, "the film is " * 9]
    features = tokenizer()(texts, length=32)
    masked, labels = masks(features, 0, 7)
    ids, positions = np.asarray(features["token_ids"]), masked["masked_positions"].numpy()
    lengths = np.asarray(features["padding_mask"]).sum(axis=1)
    there = labels.numpy() != -100
    assert there.sum(axis=1).tolist() == [max(1, round(0.15 * length)) for length in lengths]
    original_ids = np.take_along_axis(ids, positions, axis=1)
    assert (original_ids[there] == labels.numpy()[there]).all() and (positions[~there] == 0).all()
    narrow = masks({name: value[:1, :3] for name, value in features.items()}, 0, 7)[0]
    assert narrow["token_ids"].shape == (1, 3)


@pytest.mark.slow
def test_trains_on_data_sets_of_texts():
    model = fresh(max_length=16)
    model.compile(AdamW(1e-3))
    data = tf.data.Dataset.from_tensor_slices(TEXTS).batch(8)
    losses = model.fit(data, epochs=2, validation_data=data, verbose=0).history["loss"]
    assert losses[0] != losses[1] and np.isfinite(losses).all()
    with pytest.raises(InputError, match="does not take labels"):
        model.fit(tf.data.Dataset.zip(data, data), verbose=0)


def test_rejects_invalid_training_data():
    model = fresh()
    with pytest.raises(InputError, match="the loss .* is built in"):
        model.compile(loss="mse")
    with pytest.raises(InputError, match="model.fill"):
        model.predict(TEXTS)
    with pytest.raises(InputError, match="the labels of texts are created by the model"):
        model.fit(TEXTS, TEXTS, verbose=0)
    with pytest.raises(InputError, match="batch_size must be"):
        model.fit(TEXTS, batch_size=0, verbose=0)
    with pytest.raises(InputError, match=r"rate must be a number in \(0, 1\), got 2"):
        fresh(mask_rate=2)


def test_trains_on_generators_of_texts(directory):
    model = MaskedLM.from_pretrained(directory)
    texts = ["the film is good", "a plot", "very dull", "the joy"]
    model.compile(AdamW(1e-3))
    history = model.fit(
        iter([texts] * 4),
        steps_per_epoch=2,
        epochs=2,
        validation_data=iter([texts] * 4),
        validation_steps=2,
        verbose=0,
    ).history
    assert len(history["loss"]) == 2 and np.isfinite(history["val_loss"]).all()


def test_evaluate_knows_the_number_of_batches(directory, recwarn):
    model = MaskedLM.from_pretrained(directory)
    model.evaluate(["good film"] * 6, batch_size=4, verbose=0)
    assert not [warning for warning in recwarn if "ran out of data" in str(warning.message)]


def test_rejects_a_candidate_that_is_no_token(directory):
    with pytest.raises(InputError, match="must be a single token. Its tokens are '.UNK.'"):
        MaskedLM.from_pretrained(directory).fill(["a [MASK]"], candidates=["\N{ROBOT FACE}"])


def test_scores_are_means_over_masked_tokens(directory):
    """Also over batches with different numbers of them."""
    model = MaskedLM.from_pretrained(directory)
    names = ["accuracy", "mse", keras.metrics.SparseCategoricalCrossentropy(name="ce")]
    model.compile(None, None, names)
    features = tokenizer()(["the film is good", "a joy", "the plot", "dull"], length=8)
    features = {name: np.asarray(part) for name, part in features.items()}
    features["masked_positions"] = np.tile(np.arange(1, 4, dtype="int32"), (4, 1))
    best = model.predict(features, verbose=0).argmax(-1)
    labels = np.full((4, 3), -100)
    labels[0] = best[0]
    labels[0, 2] = (best[0, 2] + 1) % tokenizer().vocabulary_size
    labels[3, 0] = best[3, 0]
    scores = model.evaluate(features, labels, batch_size=2, verbose=0, return_dict=True)
    logits = model.predict(features, verbose=0)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, np.maximum(labels, 0)[..., None], axis=-1
    ).squeeze(-1)
    losses = losses[labels >= 0]
    assert scores["accuracy"] == pytest.approx(3 / 4)
    assert scores["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert scores["ce"] == pytest.approx(np.mean(losses), abs=1e-5)


def test_long_texts_are_cut_as_in_transformers(directory):
    model = MaskedLM.from_pretrained(directory)
    text = "[MASK] " + "film " * 2 * model.max_length
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    ids = theirs(text, truncation=True, max_length=model.max_length, return_tensors="pt").input_ids
    token_ids = model.signatures().tokenize(tf.constant([text]))["token_ids"]
    np.testing.assert_array_equal(token_ids, ids)
    peer = transformers.BertForMaskedLM.from_pretrained(directory).double().eval()
    with torch.no_grad():
        scores = peer(input_ids=ids).logits[0, 1].softmax(-1)
    filling = model.fill([text], top_k=1)[0][0][0]
    assert filling.token == theirs.convert_ids_to_tokens(int(scores.argmax()))
    assert filling.score == pytest.approx(float(scores.max()), abs=1e-5)


def test_rejects_a_causal_encoder(tmp_path):
    causal = "masked language modeling needs .* both sides. This encoder is causal"
    with pytest.raises(InputError, match=causal):
        MaskedLM(encoder(causal=True), tokenizer())
    Pretrainer(encoder(causal=True), ["left_to_right"]).save_pretrained(tmp_path, tokenizer())
    with pytest.raises(InputError, match=causal):
        MaskedLM.from_pretrained(tmp_path)


def test_commands_for_a_causal_model(tmp_path, capsys):
    model = tmp_path / "model"
    Pretrainer(encoder(causal=True), ["left_to_right"]).save_pretrained(model, tokenizer())
    assert main(["fill-mask", "--model", str(model), "good [MASK]"]) == 2
    assert "is causal" in capsys.readouterr().err
    assert main(["look", str(model), "good film", "--out", str(tmp_path / "look.html")]) in (
        0,
        None,
    )
    assert "TextEmbedder" in (tmp_path / "look.html").read_text()
