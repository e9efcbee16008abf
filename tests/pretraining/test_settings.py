"""Settings of pre-training that the others leave without effect."""

import dataclasses

import pytest

from keras_bert_impl.pretraining.objectives import as_objectives
from keras_bert_impl.pretraining.settings import MASKED_OBJECTIVES, PretrainSettings
from keras_bert_impl.utils.errors import InputError

# Not the defaults.
MASKS = {
    "mask_unit": "word",
    "mask_rate": 0.2,
    "mask_split": [1.0, 0.0, 0.0],
    "max_predictions": 20,
    "dupe_factor": 1,
}
UNMASKED = [("left_to_right",), ("next_sentence",), ("layer_distillation", "sentence_order")]


def settings_of(objectives, **changes):
    distills = {"distillation", "layer_distillation"} & set(objectives or ())
    teacher = "TEACHER" if distills else None
    return PretrainSettings(objectives=objectives, teacher=teacher, **changes)


@pytest.mark.parametrize("objectives", [None, ["masked_lm"], ["left_to_right"]])
def test_rejects_a_generator_without_its_objective(objectives):
    message = "generator is only for the objective replaced_token.* generator=null"
    with pytest.raises(InputError, match=message):
        settings_of(objectives, generator="electra-small-generator")
    assert settings_of(["replaced_token"], generator="electra-small-generator").generator


def test_rejects_a_long_part_without_long_records():
    with pytest.raises(InputError, match="long_part is only with long_records.* long_part=0.1"):
        PretrainSettings(long_part=0.2)
    assert PretrainSettings(long_part=0.2, long_records="long").long_part == 0.2
    assert PretrainSettings(long_part=0.1).long_records is None


@pytest.mark.parametrize("objectives", UNMASKED)
@pytest.mark.parametrize("name", MASKS)
def test_rejects_masks_where_nothing_is_masked(objectives, name):
    with pytest.raises(InputError, match=f"nothing is masked.* {name}=") as caught:
        settings_of(objectives, **{name: MASKS[name]})
    assert "\n" not in str(caught.value)


def test_the_message_lists_what_to_set():
    with pytest.raises(InputError) as caught:
        settings_of(["left_to_right"], **MASKS)
    assert "set mask_unit=token mask_rate=0.15 mask_split=[0.8,0.1,0.1]" in str(caught.value)
    assert "max_predictions=null dupe_factor=null" in str(caught.value)


@pytest.mark.parametrize("objectives", [None, *((name,) for name in MASKED_OBJECTIVES)])
def test_masks_go_with_every_objective_that_masks(objectives):
    for unit in ("token", "word", "ngram", "span"):
        assert settings_of(objectives, **MASKS | {"mask_unit": unit}).mask_unit == unit


@pytest.mark.parametrize("objectives", UNMASKED)
def test_defaults_may_be_written_out(objectives):
    """`recipe.yaml` holds every setting."""
    settings = settings_of(objectives, mask_split=[0.8, 0.1, 0.1])
    assert PretrainSettings(**dataclasses.asdict(settings)) == settings


@pytest.mark.parametrize("objectives", [[], ["masked_lm", "masked_lm"]])
def test_objectives_are_some_and_each_once(objectives):
    with pytest.raises(
        InputError, match=r"objectives must be .* \(at least one, without duplicates\)"
    ):
        PretrainSettings(objectives=objectives)
    with pytest.raises(InputError, match="objectives must not be empty or share outputs"):
        as_objectives(objectives)


def test_one_objective_needs_no_list():
    assert PretrainSettings(objectives="masked_lm").objectives == ("masked_lm",)
    assert [objective.name for objective in as_objectives("masked_lm")] == ["masked_lm"]


def test_input_workers_are_named_once():
    address = "grpc://host:5050"
    assert PretrainSettings(input_workers=[address]).input_workers == (address,)
    with pytest.raises(InputError, match="input_workers names grpc://host:5050 twice"):
        PretrainSettings(input_workers=[address, address])
