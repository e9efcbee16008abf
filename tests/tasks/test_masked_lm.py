"""Filling in masked words."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.cli.main import main
from keras_bert_impl.errors import InputError
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.tasks.masked_lm import MaskedLM
from tests.helpers import randomize
from tests.tasks.helpers import encoder, tokenizer


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
            # A softmax does not enlarge the 1e-5 that logits may differ by.
            assert [filling.score for filling in mask] == pytest.approx(scores[best], abs=1e-5)


def test_candidates_are_chosen_from_with_their_probabilities(directory):
    model = MaskedLM.from_pretrained(directory)
    texts = ["the film is [MASK]", "[MASK] plot, very [MASK]"]
    everything = model.fill(texts, top_k=tokenizer().vocabulary_size)
    # A word that is one piece, though not as it stands in the vocabulary.
    some = model.fill(texts, candidates=["good", "Dull", "[UNK]", "good"])
    for all_of_mask, of_mask in zip(sum(everything, []), sum(some, []), strict=True):
        expected = [f for f in all_of_mask if f.token in ("good", "dull", "[UNK]")]
        assert of_mask == expected and len(of_mask) == 3
    assert model.fill(texts, top_k=1, candidates=["film"])[1][0][0].token == "film"


def test_the_command_takes_candidates(directory, capsys):
    text = "the film is [MASK]"
    command = ["fill-mask", str(directory), "--candidate", "good", "--candidate", "bad"]
    assert main([*command, "--json", text]) == 0
    answers = json.loads(capsys.readouterr().out)
    fillings = MaskedLM.from_pretrained(directory).fill([text], candidates=["good", "bad"])
    expected = [[dataclasses.asdict(filling) for filling in mask] for mask in fillings[0]]
    assert answers == [{"text": text, "masks": expected}]


def test_keras_file(directory, tmp_path):
    model = MaskedLM.from_pretrained(directory)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    texts = ["the film is [MASK]"]
    assert loaded.fill(texts) == model.fill(texts)


def test_bad_input(directory, tmp_path):
    model = MaskedLM.from_pretrained(directory)
    with pytest.raises(InputError, match=r"text 1 has no \[MASK\]"):
        model.fill(["a [MASK]", "a film"])
    with pytest.raises(InputError, match="takes a list"):
        model.fill("a [MASK]")
    for candidates, message in (
        (["good", "not bad"], "'not bad' is not one piece but 'not', 'bad'"),
        ([" "], "' ' is not one piece but none"),
        ("good", "must be a list of words"),
        ([], "must be a list of words"),
    ):
        with pytest.raises(InputError, match=message):
            model.fill(["a [MASK]"], candidates=candidates)
    encoder().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="cls.predictions.transform.dense.weight is missing"):
        MaskedLM.from_pretrained(tmp_path)
