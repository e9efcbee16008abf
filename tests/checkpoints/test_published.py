"""The table of published models, against the counts of their weights."""

import pytest

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.interop import encoder_config, huggingface_config
from keras_bert_impl.checkpoints.published import MODELS

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
    "chinese-bert-wwm": 102_267_648,
    "chinese-roberta-wwm-ext": 102_267_648,
    "chinese-roberta-wwm-ext-large": 325_522_432,
    "rbt3": 38_476_800,
    "rbtl3": 61_001_728,
    "spanbert-base-cased": 108_310_272,
    "spanbert-large-cased": 333_579_264,
    "biobert-base-cased-v1.1": 108_310_272,
    "scibert_scivocab_uncased": 109_918_464,
    "Bio_ClinicalBERT": 108_310_272,
    "finbert": 109_482_240,
    "bert-base-dutch-cased": 109_137_408,
    "distilbert-base-uncased": 66_362_880,
    "distilbert-base-cased": 65_190_912,
    "distilbert-base-multilingual-cased": 134_734_080,
    "TinyBERT_General_4L_312D": 14_350_248,
    "TinyBERT_General_6L_768D": 66_955_008,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlm-roberta-base": 278_043_648,
    "xlm-roberta-large": 559_890_432,
    "camembert-base": 110_621_952,
    "albert-base-v2": 11_683_584,
    "albert-large-v2": 17_683_968,
    "albert-xlarge-v2": 58_724_864,
    "albert-xxlarge-v2": 222_595_584,
    "electra-small-discriminator": 13_483_008,
    "electra-base-discriminator": 108_891_648,
    "electra-large-discriminator": 334_092_288,
    "electra-small-generator": 13_483_008,
    "electra-base-generator": 33_511_168,
    "electra-large-generator": 50_999_552,
    "flaubert_small_cased": 54_366_720,
    "flaubert_base_uncased": 137_321_472,
    "flaubert_base_cased": 138_233_088,
    "flaubert_large_cased": 373_214_208,
    "ModernBERT-base": 149_014_272,
    "ModernBERT-large": 394_781_696,
}
# Rows: number of layers; columns: hidden size.
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


def test_published_parameters():
    counts = {name: EncoderConfig.named(name).num_parameters() for name in PARAMETERS}
    assert counts == PARAMETERS


@pytest.mark.parametrize(
    ("name", "count"), [("roberta-base", 124_055_040), ("roberta-large", 354_310_144)]
)
def test_published_parameters_without_a_pooler(name, count):
    assert EncoderConfig.named(name, use_pooler=False).num_parameters() == count


@pytest.mark.parametrize("name", MODELS)
def test_every_configuration_can_be_written(name):
    config = EncoderConfig.named(name)
    assert encoder_config(huggingface_config(config)) == config
