"""Filling in masked words."""

import keras
import numpy as np
import pytest
import torch
import transformers

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
    encoder().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="cls.predictions.transform.dense.weight is missing"):
        MaskedLM.from_pretrained(tmp_path)
