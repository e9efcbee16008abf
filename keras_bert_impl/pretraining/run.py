"""A pre-training run: records in, a model directory out, resumable on the way."""

import dataclasses
import json
from pathlib import Path

import keras

from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.errors import InputError
from keras_bert_impl.interop import encoder_config
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.batches import checked_objectives
from keras_bert_impl.pretraining.dataset import num_held_out_batches, pretraining_dataset
from keras_bert_impl.pretraining.masking import Masking
from keras_bert_impl.pretraining.objectives import OBJECTIVES, ReplacedTokens
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.pretraining.records import clear_read_errors, read_manifest
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.training.checkpoints import RunCheckpoint
from keras_bert_impl.training.optimizer import AdamW
from keras_bert_impl.training.run_directory import MetricsLog, RunDirectory
from keras_bert_impl.training.schedules import LinearWarmupDecay
from keras_bert_impl.training.strategy import get_strategy, is_chief


def pretrain(
    records, output_directory, strategy="auto", resume=True, callbacks=(), verbose="auto", **settings
):
    """Pre-trains a model on records and writes a run directory.

    The directory holds `model/`, which `from_pretrained` and `transformers` load, `recipe.yaml`,
    `metrics.jsonl`, `scores.json` (on held-out rows) and `checkpoints/`. A run that was
    interrupted goes on from its newest checkpoint, with the batches, masks and dropout that the
    undisturbed run would have had.

    Args:
        records: str or `Path` of the folder that `prepare` made.
        output_directory: str or `Path` of the run directory.
        strategy: str, as for `get_strategy`.
        resume: bool. Whether to go on if the directory holds a run.
        callbacks: Keras callbacks for `fit`.
        verbose: as for `fit`.
        **settings: fields of `PretrainSettings`.

    Returns:
        `Pretrainer`, trained.

    Raises:
        InputError: settings, records or model that cannot be used; says which.

    Example:
        prepare("corpus.txt", "records", tokenizer)
        pretrain("records", "run", model="bert_uncased_L-2_H-128_A-2", total_steps=1000)
    """
    settings = PretrainSettings(**settings)
    manifest = read_manifest(records)
    data = {
        "batch_size": settings.batch_size,
        "seed": settings.seed,
        "objectives": checked_objectives(manifest, settings.objectives),
        "masking": _masking(settings),
    }
    strategy = get_strategy(strategy)  # workers connect before anything else uses TensorFlow
    tokenizer = Tokenizer.from_pretrained(records)
    with strategy.scope():
        pretrainer = _build(settings, data["objectives"], tokenizer)
        _check_fits(pretrainer.encoder.config, manifest, tokenizer)
        pretrainer.compile(
            _optimizer(settings),
            accumulation_steps=settings.accumulation_steps,
            steps_per_execution=settings.steps_per_execution,
            jit_compile=settings.jit_compile,
            dropout_seed=settings.seed,
        )
    run = RunDirectory(output_directory, settings, resume)  # only now: a refused run leaves nothing
    checkpoint = RunCheckpoint(pretrainer, run.checkpoints, seed=settings.seed)
    finished = checkpoint.restore()  # report intervals
    held_out = _held_out(records, manifest, strategy, data, tokenizer)
    # Counted here: Keras takes the batches of all replicas of a distributed data set for steps.
    held_out_steps = num_held_out_batches(manifest, settings.batch_size)
    train = _distribute(
        strategy,
        settings.batch_size,
        lambda **shard: pretraining_dataset(
            records,
            start_step=finished * settings.report_every,
            tokenizer=tokenizer,
            **data,
            **shard,
        ),
    )
    epochs = settings.total_steps // settings.report_every
    with clear_read_errors(records):
        if finished < epochs:
            log = MetricsLog(
                run.metrics,
                settings.report_every,
                initial_step=finished * settings.report_every,
                tokens_per_step=_tokens_per_row(manifest) * settings.batch_size,
            )
            often = settings.evaluate_every or settings.total_steps
            pretrainer.fit(
                train,
                epochs=epochs,
                initial_epoch=finished,
                steps_per_epoch=settings.report_every,
                validation_data=held_out if often < settings.total_steps else None,
                validation_steps=held_out_steps or None,
                validation_freq=often // settings.report_every,
                callbacks=[log, checkpoint, *callbacks] if is_chief() else [checkpoint, *callbacks],
                shuffle=False,  # the data set is
                verbose=verbose,
            )
        if held_out is not None:
            scores = pretrainer.evaluate(
                held_out, steps=held_out_steps, return_dict=True, verbose=0
            )
            if is_chief():
                run.write_scores({name: float(value) for name, value in scores.items()})
    if is_chief():
        pretrainer.save_pretrained(run.model, tokenizer)
    return pretrainer


def _masking(settings):
    mask, random, _ = settings.mask_split
    return Masking(
        settings.mask_unit, settings.mask_rate, settings.max_predictions, mask=mask, random=random
    )


def _build(settings, names, tokenizer):
    overrides = {}
    if settings.dropout is not None:
        overrides = {"dropout": settings.dropout, "attention_dropout": settings.dropout}
    objectives = [_objective(name, settings, tokenizer, overrides) for name in names]
    if "left_to_right" in names:
        overrides["causal"] = True
    keras.utils.set_random_seed(settings.seed)
    if Path(settings.model).is_dir():
        path = Path(settings.model)
        return Pretrainer.from_pretrained(path, objectives, dtype=settings.dtype, **overrides)
    config = _shape(settings.model, tokenizer, overrides)
    return Pretrainer(Encoder(config, dtype=settings.dtype), objectives)


def _objective(name, settings, tokenizer, overrides):
    if name == "replaced_token" and settings.generator is not None:
        return ReplacedTokens(generator=_shape(settings.generator, tokenizer, overrides))
    return OBJECTIVES[name]()


def _shape(model, tokenizer, overrides):
    """The configuration of a published name or a `config.json`, for the tokenizer's vocabulary."""
    path = Path(model)
    if path.suffix == ".json":
        config = encoder_config(_read_json(path), path)
    else:
        config = EncoderConfig.named(model)
    return dataclasses.replace(
        config,
        vocabulary_size=tokenizer.vocabulary_size,
        pad_token_id=tokenizer.pad_id,
        **overrides,
    )


def _check_fits(config, manifest, tokenizer):
    if config.vocabulary_size != tokenizer.vocabulary_size:
        raise InputError(
            f"the model has {config.vocabulary_size} pieces and the tokenizer of the records "
            f"{tokenizer.vocabulary_size}; prepare the records with the model's own tokenizer."
        )
    if config.max_length < manifest["settings"]["length"]:
        raise InputError(
            f"the records have rows of {manifest['settings']['length']} tokens and the model "
            f"takes up to {config.max_length}; prepare them with that length."
        )


def _optimizer(settings):
    warmup_steps = settings.warmup_steps
    if warmup_steps is None:
        warmup_steps = settings.total_steps // 10
    return AdamW(
        LinearWarmupDecay(settings.learning_rate, warmup_steps, settings.total_steps),
        weight_decay=settings.weight_decay,
        beta_2=settings.beta_2,
        epsilon=settings.epsilon,
        bias_correction=settings.bias_correction,
        global_clipnorm=settings.global_clipnorm,
    )


def _held_out(records, manifest, strategy, data, tokenizer):
    if not manifest["splits"]["held_out"]["rows"]:
        return None
    return _distribute(
        strategy,
        data["batch_size"],
        lambda **shard: pretraining_dataset(
            records, split="held_out", tokenizer=tokenizer, **data, **shard
        ),
    )


def _distribute(strategy, batch_size, make_dataset):
    """The data set of each input worker, in batches of one replica."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return make_dataset()
    if batch_size % replicas:
        raise InputError(
            f"batch_size must be a multiple of the {replicas} replicas. Received: {batch_size}"
        )

    def per_worker(context):
        dataset = make_dataset(
            shard_index=context.input_pipeline_id, num_shards=context.num_input_pipelines
        )
        return dataset.rebatch(batch_size // replicas)

    return strategy.distribute_datasets_from_function(per_worker)


def _tokens_per_row(manifest):
    train = manifest["splits"]["train"]
    return train["tokens"] / train["rows"]


def _read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}") from error
