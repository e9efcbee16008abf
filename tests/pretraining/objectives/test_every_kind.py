"""Every objective with every encoder, including combinations never published."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from keras_bert_impl.checkpoints.interop.layouts import LAYOUTS
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining import Pretrainer
from keras_bert_impl.pretraining.objectives.replaced_tokens import DRAW_LIMIT
from keras_bert_impl.utils.errors import InputError
from tests.helpers import MODERN, TINY, difference, randomize
from tests.pretraining.helpers import masked_batch

ONE_SEGMENT = {"num_segments": 1, "pad_token_id": 1, "position_offset": 2}
NO_SEGMENTS = {"num_segments": 0, "use_pooler": False}
KINDS = {
    "bert": TINY,
    **{
        kind: dataclasses.replace(TINY, architecture=kind, **settings)
        for kind, settings in {
            "roberta": ONE_SEGMENT,
            "xlm-roberta": ONE_SEGMENT,
            "camembert": ONE_SEGMENT,
            "longformer": ONE_SEGMENT | {"window": 2, "max_global_tokens": 3},
            "big_bird": {"block_size": 1, "num_random_blocks": 1},
            "albert": {"embedding_dim": 8, "num_layer_groups": 1},
            "distilbert": NO_SEGMENTS,
            "electra": {"embedding_dim": 8, "use_pooler": False},
            "flaubert": NO_SEGMENTS | {"intermediate_dim": 64},
            "xlm": NO_SEGMENTS | {"intermediate_dim": 64},
        }.items()
    },
    "modernbert": MODERN,
}
COMBINATIONS = [
    ["masked_lm", "next_sentence"],
    ["masked_lm", "sentence_order", "span_boundary"],
    ["replaced_token", "next_sentence"],
]


def features_of(config, objectives):
    features = masked_batch(config)[0]
    draws = np.random.default_rng(1).integers(0, DRAW_LIMIT, (4, 4)).astype("int32")
    optional = {
        "replacement_draws": draws,
        "cls_positions": np.tile(np.int32([0, 6]), (4, 1)),
        "span_starts": features["masked_positions"],
        "span_ends": features["masked_positions"],
    }
    names = [name for objective in objectives for name in objective.features]
    return features | {name: optional[name] for name in names if name in optional}


def test_tests_cover_all_objectives():
    # GPT-2 is always causal; its objective is in test_left_to_right.py.
    assert {layout.architecture for layout in LAYOUTS.values()} == {*KINDS, "gpt2"}


@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_and_transformers_loads_the_encoder(kind, names, tmp_path):
    config = dataclasses.replace(KINDS[kind], dropout=0.0, attention_dropout=0.0)
    pretrainer = Pretrainer(Encoder(config), names)
    randomize(pretrainer)
    pretrainer.save_pretrained(tmp_path)
    loaded = Pretrainer.from_pretrained(tmp_path, names)
    features = features_of(config, pretrainer.objectives)
    expected = pretrainer(features)
    for output, values in loaded(features).items():
        assert difference(values, expected[output]) == 0, output

    theirs = transformers.AutoModel.from_pretrained(tmp_path).double().eval()
    token_ids = np.maximum(features["token_ids"], 3)  # no padding ids
    masks = {}
    if kind == "longformer":  # ours: the first token is global
        masks["global_attention_mask"] = torch.tensor(np.eye(1, token_ids.shape[1]).repeat(4, 0))
    with torch.no_grad():
        states = theirs(torch.tensor(token_ids.astype("int64")), **masks).last_hidden_state.numpy()
    ours = pretrainer.encoder({"token_ids": token_ids})["sequence_output"]
    assert difference(ours, states) < 1e-5  # states of order 1; ours in float32, theirs in float64


@pytest.mark.parametrize("kind", ["albert", "distilbert", "flaubert"])
def test_rejects_causal_encoders_without_a_file_format(kind):
    with pytest.raises(InputError, match=f"no class for {kind} with a 'left_to_right' head"):
        Pretrainer(Encoder(dataclasses.replace(KINDS[kind], causal=True)), ["left_to_right"])
