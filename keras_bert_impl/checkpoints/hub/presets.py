"""The presets of KerasHub on Kaggle."""

# KerasHub model -> its presets, without the prefix of the model.
_PRESETS = {
    "bert": "tiny_en_uncased small_en_uncased medium_en_uncased base_en_uncased base_en base_zh"
    " base_multi large_en_uncased large_en tiny_en_uncased_sst2",
    "roberta": "base_en large_en",
    "albert": "base_en_uncased large_en_uncased extra_large_en_uncased"
    " extra_extra_large_en_uncased",
    "distil_bert": "base_en_uncased base_en base_multi",
    "electra": "small_discriminator_uncased_en small_generator_uncased_en"
    " base_discriminator_uncased_en base_generator_uncased_en large_discriminator_uncased_en"
    " large_generator_uncased_en",
    "xlm_roberta": "base_multi large_multi",
}
# Kaggle version of a model or preset, from KerasHub's table. All others have version 3.
_VERSIONS = {"electra": 2, "bert_tiny_en_uncased_sst2": 5, "albert_base_en_uncased": 5}
# KerasHub preset names -> names on Kaggle.
PRESETS = {
    preset: f"keras/{model}/keras/{preset}/{_VERSIONS.get(preset, _VERSIONS.get(model, 3))}"
    for model, names in _PRESETS.items()
    for preset in (f"{model}_{name}" for name in names.split())
}
