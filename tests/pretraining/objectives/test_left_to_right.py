"""The left-to-right language model against `transformers`."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.utils.errors import InputError
from tests.helpers import MODERN, TINY, difference, randomize

LENGTH = TINY.max_length
CLASSES = {
    "bert": "BertLMHeadModel",
    "roberta": "RobertaForCausalLM",
    "electra": "ElectraForCausalLM",
    "modernbert": "ModernBertDecoderForCausalLM",
    "gpt2": "GPT2LMHeadModel",
}
CONFIG = dataclasses.replace(TINY, num_segments=2, dropout=0.0, attention_dropout=0.0, causal=True)


@pytest.fixture(scope="module")
def pretrainer():
    model = Pretrainer(Encoder(CONFIG), ["left_to_right"])
    randomize(model)
    return model


def batch(rows=3):
    """Creates data whose labels are the next tokens; the last token of a row has none."""
    # Starts at 2: id 1 is RoBERTa's padding, which has its own position.
    ids = np.random.default_rng(0).integers(2, CONFIG.vocabulary_size, (rows, LENGTH))
    features = {
        "token_ids": ids,
        "segment_ids": np.zeros((rows, LENGTH)),
        "position_ids": np.tile(np.arange(LENGTH), (rows, 1)),
        "example_ids": np.ones((rows, LENGTH)),
    }
    labels = np.concatenate([ids[:, 1:], np.zeros((rows, 1))], axis=1)
    weights = np.ones((rows, LENGTH), "float32")
    weights[:, -1] = 0
    return (
        {name: np.array(value, "int32") for name, value in features.items()},
        {"left_to_right": labels.astype("int32")},
        {"left_to_right": weights},
    )


@pytest.mark.parametrize("architecture", CLASSES)
def test_equals_transformers(architecture, tmp_path):
    config = dataclasses.replace(CONFIG, architecture=architecture)
    if architecture == "modernbert":
        config = dataclasses.replace(MODERN, causal=True, dropout=0.0, attention_dropout=0.0)
    if architecture == "roberta":
        config = dataclasses.replace(config, position_offset=2, pad_token_id=1)
    if architecture == "gpt2":
        fields = {"num_segments": 0, "pre_norm": True, "final_norm": True, "embedding_norm": False}
        config = dataclasses.replace(config, use_pooler=False, activation="gelu_tanh", **fields)
    if architecture == "electra":
        config = dataclasses.replace(config, use_pooler=False)
    model = Pretrainer(Encoder(config), ["left_to_right"])
    randomize(model)
    model.save_pretrained(tmp_path)
    features, labels, weights = batch()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).double().eval()
    assert type(theirs).__name__ == CLASSES[architecture]
    ids = torch.tensor(features["token_ids"]).long()
    with torch.no_grad():
        outputs = theirs(input_ids=ids, labels=ids)
    logits = model(features)
    # 1e-5 as elsewhere: float32 against float64 at these widths differs by a few 1e-6.
    assert difference(logits["left_to_right"], outputs.logits.numpy()) < 1e-5
    loss = model.compute_loss(features, labels, logits, weights)
    assert float(loss) == pytest.approx(outputs.loss.item(), rel=1e-5)
    again = Pretrainer.from_pretrained(tmp_path, ["left_to_right"])
    assert difference(again(features)["left_to_right"], logits["left_to_right"]) == 0


def test_no_token_attends_to_later_tokens(pretrainer):
    features, _, _ = batch()
    before = pretrainer(features)["left_to_right"]
    changed = {name: value.copy() for name, value in features.items()}
    changed["token_ids"][:, 7:] = changed["token_ids"][:, 7:] % (CONFIG.vocabulary_size - 1) + 1
    after = pretrainer(changed)["left_to_right"]
    assert difference(before[:, :7], after[:, :7]) == 0
    assert difference(before[:, 7:], after[:, 7:]) > 0.01


def test_packed_examples_are_independent(pretrainer):
    features, _, _ = batch(rows=1)
    half = LENGTH // 2
    features["example_ids"][:, half:] = 2
    features["position_ids"][:, half:] -= half
    whole = pretrainer(features)["left_to_right"]
    for part in (slice(0, half), slice(half, LENGTH)):
        alone = {name: value[:, part] for name, value in features.items()}
        # Summation order differs: a few float32 units on logits of order 1.
        assert difference(whole[:, part], pretrainer(alone)["left_to_right"]) < 1e-5


def test_rejects_invalid_arguments():
    with pytest.raises(InputError, match="needs an encoder with causal=True"):
        Pretrainer(Encoder(TINY), ["left_to_right"])
    with pytest.raises(ValueError, match="cannot be combined with other objectives"):
        Pretrainer(Encoder(CONFIG), ["left_to_right", "masked_lm"])
    albert = dataclasses.replace(
        CONFIG, architecture="albert", embedding_dim=10, num_layer_groups=1
    )
    with pytest.raises(InputError, match="albert"):
        Pretrainer(Encoder(albert), ["left_to_right"])


@pytest.mark.parametrize(
    "name", ["masked_lm", "next_sentence", "sentence_order", "span_boundary", "replaced_token"]
)
def test_objectives_of_both_sides_reject_a_causal_encoder(name):
    with pytest.raises(
        InputError, match=f"{name} needs an encoder that attends to tokens on both sides"
    ):
        Pretrainer(Encoder(CONFIG), [name])
