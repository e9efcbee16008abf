"""Builds the model, optimizer and masking of a pre-training run from its settings."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import keras
from keras.optimizers.schedules import LearningRateSchedule

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.hub import local_directory
from keras_bert_impl.checkpoints.interop import encoder_config
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.masking.masking import Masking
from keras_bert_impl.pretraining.objectives import OBJECTIVES, ReplacedTokens
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.recipes import model_file
from keras_bert_impl.pretraining.settings import DISTILLATIONS, PretrainSettings
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.tokenizers.files import has_tokenizer
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.lamb import LAMB
from keras_bert_impl.training.optimizers.schedules import (
    CosineWarmupDecay,
    LinearWarmupDecay,
    OneCycle,
    TimeBudget,
)
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.reading import read_json

_OPTIMIZERS = {"adamw": AdamW, "lamb": LAMB}
_SCHEDULES = {"linear": LinearWarmupDecay, "cosine": CosineWarmupDecay, "one_cycle": OneCycle}


def build_pretrainer(
    settings: PretrainSettings,
    names: Iterable[str],
    tokenizer: Tokenizer,
    schedule: LearningRateSchedule,
) -> Pretrainer:
    """Returns the compiled `Pretrainer` of a run. Call it inside `strategy.scope()`."""
    pretrainer = _build_pretrainer(settings, names, tokenizer)
    optimizer = _OPTIMIZERS[settings.optimizer](
        schedule,
        weight_decay=settings.weight_decay,
        beta_2=settings.beta_2,
        epsilon=settings.epsilon,
        bias_correction=settings.bias_correction,
        global_clipnorm=settings.global_clipnorm,
        use_ema=settings.ema is not None,
        ema_momentum=settings.ema or 0.0,
    )
    pretrainer.compile(
        optimizer,
        accumulation_steps=settings.accumulation_steps,
        steps_per_execution=settings.steps_per_execution,
        jit_compile=settings.jit_compile,
        dropout_seed=settings.seed,
        remat=settings.remat,
        watch_steps=True,
    )
    return pretrainer


def make_schedule(settings: PretrainSettings) -> LearningRateSchedule:
    if settings.schedule == "budget":
        return TimeBudget(settings.learning_rate, 3600 * settings.budget_hours)
    warmup_steps = settings.warmup_steps
    if warmup_steps is None:
        share = 0.3 if settings.schedule == "one_cycle" else 0.1
        warmup_steps = int(share * settings.total_steps)
    schedule = _SCHEDULES[settings.schedule]
    return schedule(settings.learning_rate, warmup_steps, settings.total_steps)


def masking(settings: PretrainSettings) -> Masking:
    mask, random, _ = settings.mask_split
    return Masking(
        settings.mask_unit,
        settings.mask_rate,
        settings.max_predictions,
        mask=mask,
        random=random,
        dupe_factor=settings.dupe_factor,
    )


def _build_pretrainer(settings, names, tokenizer):
    overrides = {}
    if settings.dropout is not None:
        overrides = {"dropout": settings.dropout, "attention_dropout": settings.dropout}
    objectives = [_build_objective(name, settings, tokenizer, overrides) for name in names]
    if "left_to_right" in names:
        overrides["causal"] = True
    keras.utils.set_random_seed(settings.seed)
    if isinstance(settings.model, str) and Path(settings.model).is_dir():
        path = Path(settings.model)
        return Pretrainer.from_pretrained(path, objectives, dtype=settings.dtype, **overrides)
    else:
        config = _shape(settings.model, tokenizer, overrides)
    if not any(objective.uses_pooler for objective in objectives):
        config = dataclasses.replace(config, use_pooler=False)  # No objective trains the pooler.
    return Pretrainer(Encoder(config, dtype=settings.dtype), objectives)


def _build_objective(name, settings, tokenizer, overrides):
    if name == "replaced_token" and settings.generator is not None:
        return ReplacedTokens(generator=_shape(settings.generator, tokenizer, overrides))
    if name in DISTILLATIONS:
        teacher = local_directory(settings.teacher)
        if has_tokenizer(teacher):
            if Tokenizer.from_pretrained(teacher).fingerprint != tokenizer.fingerprint:
                raise InputError(
                    f"the records were not prepared with the tokenizer of the teacher {teacher}; "
                    "run prepare with it."
                )
        return OBJECTIVES[name](teacher=teacher, dtype=settings.dtype)
    return OBJECTIVES[name]()


def model_config(model: dict | str) -> EncoderConfig:
    """Reads the configuration of a model from a dict, a `config.json` or a published model."""
    if isinstance(model, dict):
        return _build_config(model)
    if Path(model).suffix == ".json":
        path = model_file(model)
        return encoder_config(read_json(path), path)
    return EncoderConfig.named(model)


def _shape(model, tokenizer, overrides):
    """Returns the configuration of a newly initialized model for a tokenizer."""
    if not isinstance(model, dict):
        overrides = {"vocabulary_size": tokenizer.vocabulary_size, **overrides}
    return _fit_to_tokenizer(model_config(model), tokenizer, overrides)


def _build_config(fields):
    field_names = {field.name for field in dataclasses.fields(EncoderConfig)}
    unknown = sorted(set(fields) - field_names)
    if unknown:
        raise InputError(
            f"EncoderConfig has no field {listed(unknown)}. Its fields are "
            f"{', '.join(sorted(field_names))}."
        )
    try:
        return EncoderConfig(**fields)
    except TypeError as error:  # The error names the missing fields.
        raise InputError(f"the model's configuration is incomplete: {error}.") from error


def _fit_to_tokenizer(config, tokenizer, overrides):
    changes = {"pad_token_id": tokenizer.pad_id}
    if config.position_offset:  # RoBERTa's positions start after the padding id.
        changes["position_offset"] = tokenizer.pad_id + 1
    return dataclasses.replace(config, **changes, **overrides)
