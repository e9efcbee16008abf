import dataclasses

import pytest

from keras_bert_impl.config import MODELS, EncoderConfig
from keras_bert_impl.errors import InputError
from tests.helpers import TINY

PARAMETERS = {
    "bert-base-uncased": 109_482_240,
    "bert-base-cased": 108_310_272,
    "bert-large-uncased": 335_141_888,
    "bert-large-cased": 333_579_264,
    "bert-large-uncased-whole-word-masking": 335_141_888,
    "bert-large-cased-whole-word-masking": 333_579_264,
    "bert-base-multilingual-uncased": 167_356_416,
    "bert-base-multilingual-cased": 177_853_440,
    "bert-base-chinese": 102_267_648,
}
# Rows: layers; columns: hidden width.
SMALL = {
    2: (4_385_920, 9_591_040, 22_458_880, 38_603_520),
    4: (4_782_464, 11_170_560, 28_763_648, 52_779_264),
    6: (5_179_008, 12_750_080, 35_068_416, 66_955_008),
    8: (5_575_552, 14_329_600, 41_373_184, 81_130_752),
    10: (5_972_096, 15_909_120, 47_677_952, 95_306_496),
    12: (6_368_640, 17_488_640, 53_982_720, 109_482_240),
}
PARAMETERS |= {
    f"bert_uncased_L-{layers}_H-{hidden}_A-{hidden // 64}": count
    for layers, row in SMALL.items()
    for hidden, count in zip((128, 256, 512, 768), row)
}


def test_every_published_model_has_its_parameters():
    assert {name: model.config.num_parameters() for name, model in MODELS.items()} == PARAMETERS


def test_parameters_without_a_pooler():
    config = EncoderConfig.named("bert-base-uncased", use_pooler=False)
    assert config.num_parameters() == 108_891_648


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match="'bert-base-uncasd'.*Did you mean 'bert-base-uncased'"):
        EncoderConfig.named("bert-base-uncasd")


def test_named_with_overrides():
    assert EncoderConfig.named("bert-base-cased", dropout=0.0).dropout == 0.0
    with pytest.raises(TypeError, match="droput"):
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
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\).*1.0"),
        ({"attention_dropout": -0.1}, r"attention_dropout must be in \[0, 1\).*-0.1"),
        ({"layer_norm_epsilon": 0.0}, "layer_norm_epsilon must be a positive number.*0.0"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon must be a positive.*nan"),
        ({"initializer_range": float("inf")}, "initializer_range must be a positive.*inf"),
    ],
)
def test_impossible_values(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(TINY, **fields)
