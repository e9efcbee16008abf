"""Resumable fine-tuning runs."""

import dataclasses
import functools
import operator
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_bert_impl.data.scores.decisions import warn_of_nan
from keras_bert_impl.data.tables import checks
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.data.tables.source import given_options
from keras_bert_impl.runs.data_summary import summarize
from keras_bert_impl.runs.inputs import (
    as_examples,
    made_of,
    model_directory,
    read_options,
    with_named_classes,
)
from keras_bert_impl.runs.phases import (
    best_epoch,
    metric_first,
    metric_of,
    phases_of,
    scores_of_epochs,
)
from keras_bert_impl.runs.settings import MAY_CHANGE, FinetuneSettings, with_settings_of
from keras_bert_impl.tasks.base.description import LONG_TEXT_SETTINGS, Task
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.tasks.embedding.model import TextEmbedder
from keras_bert_impl.tasks.registry import model_class_of, score_more, task_of, task_of_examples
from keras_bert_impl.training.optimizers.adamw import default_optimizer
from keras_bert_impl.training.runs.checkpoints import RunCheckpoint
from keras_bert_impl.training.runs.reports import MetricsLog, StopsIfDiverged, TrainingProgress
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.training.strategy import (
    device_names,
    get_strategy,
    is_chief,
    mean_of_workers,
    num_workers,
)
from keras_bert_impl.training.tuning import (
    GradualUnfreezing,
    choose_weights,
    learning_rates,
    save_tuned,
)
from keras_bert_impl.training.tuning.choice import count_parameters
from keras_bert_impl.training.tuning.settings import FULL
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_file
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.run_files import read_run_file, read_scores
from keras_bert_impl.utils.progress import print_message
from keras_bert_impl.utils.settings import DType


class TunedRun(NamedTuple):
    """A finished run. If it was already finished before `tune` was called, `is_new` is false."""

    path: Path
    model: TaskModel
    dev: LabeledExamples
    is_new: bool


def tune(
    model: str | Path,
    train: LabeledExamples | tuple,
    dev: LabeledExamples | tuple,
    output_directory: str | Path,
    strategy: Any,
    resume: bool,
    callbacks: Iterable[keras.callbacks.Callback],
    verbose: int | str,
    more_dev: dict[str, LabeledExamples | tuple] | None,
    read_with: dict[str, Any] | None,
    **settings: Any,
) -> TunedRun:
    """Fine-tunes and scores a model, without the report; see `finetune`."""
    output_directory = local_path(output_directory)
    config = settings_for(train)(model=str(model), **settings)
    train, dev = as_examples(train, "train"), as_examples(dev, "dev")
    dev_sets = [as_examples(dev_set, name) for name, dev_set in (more_dev or {}).items()]
    train, dev, *dev_sets = with_named_classes(train, dev, *dev_sets)
    more_dev = dict(zip(more_dev or {}, dev_sets))
    if any(output_directory.glob("runs/*/recipe.yaml")):
        raise InputError(f"{output_directory} contains a set of runs. Choose another directory.")
    checked = task_with(config, train, dev)
    task, metric = checked.task, checked.metric
    verbose = verbose if is_chief() else 0
    remarks = checks.remarks(train, dev)
    _show(verbose, *(f"warning: {remark}" for remark in remarks))
    for dev_set in more_dev.values():
        task_of(train, dev_set)  # This raises an error for invalid labels before training.
    dev = task.with_metric(dev, metric)
    strategy = get_strategy(strategy)
    with strategy.scope():
        tuned = _build(config, checked)
        if settings.get("learning_rate") is None and config.tuning == FULL:
            config = dataclasses.replace(config, learning_rate=tuned.default_learning_rate)
        teacher = None
        if config.teacher is not None:
            teacher = load_tuned(config.teacher, config.dtype)
        phases = phases_of(config, tuned, teacher)
    best = best_epoch(config, task, tuned, dev, phases[-1].start, metric)
    data = task.inputs(_repeat_examples(train, config)), task.inputs(dev)
    # All checks come first, so that invalid input leaves no directory.
    read = made_of(config, train, dev) if is_chief() else None
    run = RunDirectory(output_directory, config, resume, MAY_CHANGE, read)
    if run.is_finished:
        read_scores(run.scores)  # This raises an error if the file is damaged.
        _show(verbose, f"{run.path} is already finished; its model is in {run.model}")
        return TunedRun(run.path, load_tuned(run.path, config.dtype), dev, is_new=False)
    if is_chief():
        summary = summarize(tuned, train, dev, metric, checked.class_weight is not None, remarks)
        read_with = read_with or read_options(train, dev, task.name)
        options = None if read_with is None else given_options(read_with)
        run.note({"summary": dataclasses.asdict(summary), "read_with": options})
        run.note({"compared_by": {"metric": metric}})
        task.write_held_out(dev, run.path)
        skipped = dict.fromkeys((*train.skipped, *dev.skipped))
        if skipped:
            with replace_file(run.path / "skipped.txt") as temporary:
                temporary.write_text(
                    "".join(f"{location}\n" for location in skipped), encoding="utf-8"
                )
        plan = _plan(tuned, config, phases[-1].end, data[0])
        _show(verbose, *summary.lines(), *plan, *summary.advice(shown=remarks))
        if num_workers() < 2:  # one of several workers cannot predict alone
            task.before_training(tuned, dev)
    callbacks = list(callbacks)
    if config.unfreeze_gradually:
        callbacks.append(GradualUnfreezing(config.frozen_layers))
    weights = checked.class_weight
    _train(tuned, run, config, strategy, phases, best, *data, callbacks, verbose, weights)
    if is_chief():
        _save_and_score(tuned, run, config, task, train, dev, more_dev, metric, verbose)
    return TunedRun(run.path, tuned, dev, is_new=True)


def load_tuned(
    path: str | Path,
    dtype: str | None = None,
    base: str | Path | None = None,
    **settings: Any,
) -> TaskModel:
    """Loads the task model of a run directory, a model directory or a model name.

    Args:
        path: directory or name.
        dtype: Keras dtype policy. Default: the run's dtype; float32 for a model directory.
        base: location of the original model, if only the trained weights were saved. Default: the
            location that was used for fine-tuning.
        **settings: arguments of the model class. They override the saved arguments.

    Raises:
        InputError: the directory does not contain a task model.
    """
    directory = model_directory(path)
    if dtype is None:
        is_run = directory != path
        dtype = _read_dtype(local_path(path) / "recipe.yaml") if is_run else "float32"
    model_class = model_class_of(directory, base)
    return model_class.from_pretrained(directory, dtype=dtype, base=base, **settings)


def _read_dtype(recipe):
    return read_run_file(recipe, lambda settings: settings.setting("dtype", DType))


def load_embedder(
    name_or_path: str | Path, dtype: str | None = None, **settings: Any
) -> TextEmbedder:
    """Loads the `TextEmbedder` of a run directory, a model directory or a model name.

    Args:
        name_or_path: directory or name.
        dtype: Keras dtype policy. Default: the run's dtype, else float32.
        **settings: arguments of `TextEmbedder`. They override the saved arguments.

    Raises:
        InputError: the directory does not contain a model, or the run belongs to a different task.
    """
    directory = model_directory(name_or_path)
    if directory == name_or_path:
        return TextEmbedder.from_pretrained(name_or_path, dtype=dtype or "float32", **settings)
    model_class_of(directory, kind=TextEmbedder)
    return load_tuned(name_or_path, dtype, **settings)


def settings_for(train: Any) -> type[FinetuneSettings]:
    if not isinstance(train, LabeledExamples):
        return FinetuneSettings
    return with_settings_of(FinetuneSettings, task_of_examples(train))


class CheckedTask(NamedTuple):
    """The task of a run, with settings that are valid for its examples.

    Attributes:
        arguments: arguments of `model_class`.
        metric: see `metric_of`.
        class_weight: loss weights by class index; None for equal weights.
    """

    task: Task
    model_class: type[TaskModel]
    arguments: dict[str, Any]
    metric: str | None
    class_weight: dict[int, float] | None


def task_with(
    settings: FinetuneSettings, train: LabeledExamples, dev: LabeledExamples
) -> CheckedTask:
    """Returns the task of a run; raises `InputError` if a setting does not fit the examples."""
    task, task_settings, class_weight = task_of(train, dev), settings.of_tasks, None
    for name in task_settings:
        if name not in task.settings:
            raise InputError(f"{name} is not a setting of {task.model_classes[0].__name__}.")
    if "loss" in task_settings and task_settings["loss"] not in task.losses:
        raise InputError(
            f"{train.source}: loss must be {' or '.join(task.losses)} for these examples. "
            f"Received: loss={task_settings['loss']}"
        )
    metric = metric_of(settings, task, train, dev)
    if "class_weight" in task_settings:
        # Every task with this setting has this method.
        class_weight = task.class_weight(train, task_settings.pop("class_weight"))  # type: ignore[attr-defined]
    model_class: type[TaskModel] = task.model_class(task_settings)
    long_text_settings = LONG_TEXT_SETTINGS if "long_texts" in model_class.settings else ()
    for name in task_settings:
        if name not in (*model_class.settings, *long_text_settings):
            raise InputError(f"{name} is not a setting of {model_class.__name__}.")
    return CheckedTask(task, model_class, task.model_arguments(task_settings), metric, class_weight)


def _build(settings, checked):
    keras.utils.set_random_seed(settings.seed)
    model = checked.model_class.from_pretrained(
        settings.model,
        dtype=settings.dtype,
        dropout=settings.dropout,
        max_length=settings.max_length,
        adapter=settings.adapter,
        **checked.arguments,
    )
    choose_weights(model, settings)
    return model


def _repeat_examples(train, settings):
    """Repeats the examples until the run has at least `min_steps` steps."""
    if settings.min_steps is None:
        return train
    num_examples = settings.batch_size * -(-settings.min_steps // settings.epochs)  # per epoch
    return train.select([*range(len(train))] * -(-num_examples // len(train)))


def _plan(model, settings, epochs, train):
    steps = model.steps_per_epoch(train[0], settings.batch_size)
    total, trained = count_parameters(model)
    passes = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    return (
        f"training: {passes} of {steps:,} steps of {settings.batch_size} examples, "
        f"on {device_names(model.distribute_strategy)}, {settings.dtype}",
        f"parameters: {total:,}, of which {trained:,} ({trained / total:.2%}) are trained",
    )


def _show(verbose, *lines):
    if verbose != 0 and lines:
        print_message("\n".join(lines), sys.stderr)


def _train(model, run, settings, strategy, phases, best, train, dev, callbacks, verbose, weights):
    """Trains the remaining epochs of each phase. With `best`, restores the best epoch's weights."""
    steps = model.steps_per_epoch(train[0], settings.batch_size)
    end = phases[-1].end
    step_of = functools.partial(operator.mul, steps)
    log = []
    for phase in phases:
        best_here = best if phase.is_scored else None
        with strategy.scope():
            _compile(model, settings, steps, phase)
        directory = run.checkpoints / phase.name
        checkpoint = RunCheckpoint(
            model,
            directory,
            seed=settings.seed,
            best=best_here,
            num_epochs=phase.end,
            minutes=settings.checkpoint_minutes,
        )
        finished = max(checkpoint.restore(), phase.start)  # epochs
        if best_here:
            best.scores = scores_of_epochs(run.metrics, phase.start, finished, steps)
        if finished == phase.end or (best_here and best.is_over):
            continue
        steps_done = finished * steps + checkpoint.batches
        if is_chief() and not log:
            log = [MetricsLog(run, steps, end * steps, steps_done)]
            log[0].examples_per_step = settings.batch_size
        # The score comes first, because the log and the checkpoint of the best epoch need the
        # score.
        callbacks_of_best = [best] if best_here else []
        progress = TrainingProgress(
            end, step_of, steps_done, "epoch", verbose, best_here and best.metric
        )
        fit = functools.partial(
            model.fit,
            *train,
            batch_size=settings.batch_size,
            validation_data=dev if phase.is_scored else None,
            callbacks=[
                StopsIfDiverged(),
                *callbacks_of_best,
                *log,
                checkpoint,
                *callbacks,
                progress,
            ],
            verbose=0,  # `TrainingProgress` shows the progress.
            class_weight=weights,
        )
        with progress:
            if checkpoint.batches:
                # This creates the metrics, so that their values can be restored.
                if phase.is_scored:
                    model.evaluate(*dev, batch_size=settings.batch_size, steps=1, verbose=0)
                model.batches_done = checkpoint.batches
                fit(epochs=finished + 1, initial_epoch=finished)
                model.batches_done = 0
                finished = phase.end if model.stop_training else finished + 1
            if finished < phase.end:
                fit(epochs=phase.end, initial_epoch=finished)
    if not log:
        _show(verbose, f"resuming after the last step; {run.model} is saved and scored")
    if best is not None:
        checkpoint.restore_best()
        mean_of_workers(strategy, 0.0)  # The chief removes the file after all workers have read it.


def _compile(model, settings, steps, phase):
    rate = settings.learning_rate
    factors = settings.layer_decay, settings.head_factor, settings.crf_rate / rate
    model.compile(
        default_optimizer(
            steps * (phase.end - phase.start),
            rate,
            settings.weight_decay,
            settings.warmup,
            settings.clip_norm,
            learning_rates(model, *factors),
        ),
        metrics=None if phase.is_scored else [],
        accumulation_steps=settings.accumulation_steps,
        seed=settings.seed,
        objective=phase.objective,
        watch_steps=True,
    )


def _save_and_score(tuned, run, settings, task, train, dev, more_dev, metric, verbose):
    if settings.is_small:
        save_tuned(tuned, run.model, settings.model)
    else:
        tuned.save_pretrained(run.model)
    # The model is loaded again, so that the saved files are scored.
    saved = load_tuned(run.path, settings.dtype)
    scores = metric_first(task.finish(saved, dev, run.path), metric)
    scores |= score_more(saved, more_dev, run.path)
    for name in task.decision_settings:
        setattr(tuned, name, getattr(saved, name))
    warn_of_nan(scores, run.path)
    comparison = task.compare(train, dev, run.path)
    if comparison:
        scores |= comparison.scores()
        run.note({"verdict": {"sentences": comparison.verdict()}})
        _show(verbose, *(f"verdict: {line}" for line in comparison.verdict()))
    run.write_scores(scores)
