"""The likelihood of texts, token by token, against a plain loop over `transformers`."""

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.tasks import MaskedLM
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_masked_lm, tokenizer

TEXTS = [*examples(count=9)[0], "", "a zebra [UNK]", "film"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_masked_lm(tmp_path_factory.mktemp("model"), tokenizer())


@pytest.fixture(scope="module")
def model(directory):
    return MaskedLM.from_pretrained(directory)


def original_log_likelihoods(directory):
    model = transformers.AutoModelForMaskedLM.from_pretrained(directory).double().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    sums, counts = [], []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"][0]
        total = 0.0
        for place in range(1, len(ids) - 1):
            masked = ids.clone()
            masked[place] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(input_ids=masked[None]).logits[0, place]
            total += torch.log_softmax(logits, -1)[ids[place]].item()
        sums.append(total)
        counts.append(len(ids) - 2)
    return np.array(sums), np.array(counts)


def test_equals_a_loop_over_transformers(model, directory):
    expected, counts = original_log_likelihoods(directory)
    received = model.pseudo_perplexity(TEXTS, batch_size=7)
    np.testing.assert_array_equal(received.num_tokens, counts)
    # Logits in float32 and float64 differ by up to 1e-5, their log-softmax by twice that, and a sum
    # has up to 11 terms.
    assert np.abs(received.log_likelihoods - expected).max() < 11 * 2e-5
    perplexity = np.exp(-expected.sum() / counts.sum())
    assert received.perplexity == pytest.approx(perplexity, rel=2e-5)
    assert received.log_likelihoods[TEXTS.index("")] == 0


def test_batch_size_does_not_change_the_result(model):
    single, batched = (model.pseudo_perplexity(TEXTS, batch_size=size) for size in (1, 64))
    np.testing.assert_allclose(single.log_likelihoods, batched.log_likelihoods, atol=1e-5)


@pytest.mark.parametrize(
    "texts, message",
    [
        (5, "expected a list"),
        ([("a", "film")], "Text 0 is a pair"),
        ([], "the texts have no tokens"),
        (["", " "], "the texts have no tokens"),
        (["a film", "good " * 31], "text 1 has 33 tokens .* the maximum of the model is 32"),
    ],
)
def test_rejects_invalid_input(model, texts, message):
    with pytest.raises(InputError, match=message):
        model.pseudo_perplexity(texts)
