import dataclasses

import pytest

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.utils.errors import InputError
from tests.helpers import TINY


def test_parameters_without_a_pooler():
    config = EncoderConfig.named("bert-base-uncased", use_pooler=False)
    assert config.num_parameters() == 108_891_648


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match="'bert-base-uncasd'.*Did you mean 'bert-base-uncased'"):
        EncoderConfig.named("bert-base-uncasd")


def test_named_with_overrides():
    assert EncoderConfig.named("bert-base-cased", dropout=0.0).dropout == 0.0
    with pytest.raises(InputError, match="has no argument 'droput'; did you mean 'dropout'"):
        EncoderConfig.named("bert-base-cased", droput=0.0)


def test_to_dict_round_trip():
    assert EncoderConfig(**TINY.to_dict()) == TINY


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_layers": 0}, "num_layers must be a positive integer.*0"),
        ({"vocabulary_size": "30522"}, "vocabulary_size must be a positive integer.*'30522'"),
        ({"hidden_dim": 16.0}, "hidden_dim must be a positive integer.*16.0"),
        ({"num_segments": True}, "num_segments must be an integer, at least 0.*True"),
        ({"num_heads": 3}, "multiple of num_heads.*hidden_dim=16, num_heads=3"),
        ({"activation": "swish"}, "activation must be one of gelu, gelu_tanh, relu.*'swish'"),
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\), got 1.0"),
        ({"attention_dropout": -0.1}, r"attention_dropout must be a number in \[0, 1\), got -0.1"),
        ({"layer_norm_epsilon": 0.0}, "layer_norm_epsilon must be a positive number.*0.0"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon must be a positive.*nan"),
        ({"initializer_range": float("inf")}, "initializer_range must be a positive.*inf"),
        ({"use_pooler": 1}, "use_pooler must be True or False, got 1"),
        ({"pooling": "max"}, "pooling must be one of cls, mean.*'max'"),
        ({"final_norm": True}, "final_norm=True requires pre_norm=True"),
        ({"rotary_base": 0.0}, "rotary_base must be a positive number.*0.0"),
        ({"rotary_base": 10.0, "position_offset": 2}, "rotary_base requires .* position_offset=0"),
        ({"rotary_base": 10.0, "num_heads": 16}, "rotary_base requires an even hidden_dim / num"),
        ({"local_rotary_base": 10.0}, "local_rotary_base requires rotary_base and window"),
        ({"global_every": 0}, "global_every must be a positive integer.*0"),
        ({"global_every": 2}, "window requires global_every.*window=None, global_every=2"),
        ({"window": 2}, "window requires global_every.*window=2, global_every=1"),
        ({"window": 2, "global_every": 2, "num_layer_groups": 1}, "cannot be used together"),
    ],
)
def test_rejects_invalid_values(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(TINY, **fields)
