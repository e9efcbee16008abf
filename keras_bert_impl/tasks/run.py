"""A fine-tuning run: labelled examples in, a run directory out, resumable on the way."""

import dataclasses
import json
from pathlib import Path

import keras
import yaml

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_file
from keras_bert_impl.tasks.kinds import kind_of, model_class_of
from keras_bert_impl.tasks.raw_text import default_optimizer
from keras_bert_impl.tasks.settings import FinetuneSettings
from keras_bert_impl.tasks.text_embedder import TextEmbedder
from keras_bert_impl.training.checkpoints import RunCheckpoint
from keras_bert_impl.training.reports import MetricsLog
from keras_bert_impl.training.run_directory import RunDirectory
from keras_bert_impl.training.strategy import get_strategy, is_chief
from keras_bert_impl.tuning import (
    GradualUnfreezing,
    choose_weights,
    learning_rates,
    save_tuned,
)


def finetune(
    model,
    train,
    dev,
    output_directory,
    strategy="auto",
    resume=True,
    callbacks=(),
    verbose="auto",
    more_dev=None,
    **settings,
):
    """Fine-tunes a model on a task and writes a run directory.

    The directory holds `model/`, which `from_pretrained` and `transformers` load (of small weights
    alone, see `TuningSettings`, `from_pretrained`, and `peft` if it is LoRA), `recipe.yaml`,
    `data.json`, `metrics.jsonl`, `tensorboard/`, `checkpoints/`, and of `dev`, by the model as it
    was saved, `scores.json` and predictions: `predictions.tsv`, or for questions the three files of
    SQuAD. A run that was interrupted goes on from its newest checkpoint, the end of an epoch, with
    the batches and the dropout of the undisturbed run.

    Args:
        model: str or `Path` of a model directory.
        train: what to learn, which decides what is made of it: `Examples` of `read_glue` or
            `read_table`, a `TextClassifier`; `TaggedExamples` of `read_columns` or `read_conllu`,
            a `TokenClassifier`; `QuestionExamples` of `read_squad`, a `QuestionAnswerer`;
            `ChoiceExamples` of `read_choices`, a `MultipleChoice`;
            `SimilarityExamples` of any of the first with pairs and numbers, a `TextEmbedder`.
        dev: the same, to score the model on.
        output_directory: str or `Path` of the run directory.
        strategy: str, as for `get_strategy`.
        resume: bool. Whether to go on if the directory holds a run.
        callbacks: Keras callbacks for `fit`.
        verbose: as for `fit`.
        more_dev: dict of name -> further examples to score the model on, such as MNLI's mismatched
            ones. Their scores are `NAME/...`, their predictions in a folder of that name.
        **settings: fields of `FinetuneSettings`.

    Returns:
        The tuned `TaskModel`.

    Raises:
        InputError: settings, texts, labels or a model that cannot be used; says which.

    Example:
        data = {split: read_glue("mrpc", "glue", split) for split in ("train", "dev")}
        finetune("path/to/model", data["train"], data["dev"], "run", epochs=4)
    """
    settings = FinetuneSettings(model=str(model), **settings)
    kind = kind_of(train, dev)
    more_dev = {name: (kind_of(train, more), more) for name, more in (more_dev or {}).items()}
    own = _own_settings(kind, settings)
    of_fit = {}
    if "class_weight" in own:
        of_fit["class_weight"] = kind.class_weight(train, own.pop("class_weight"))
    model_class = kind.feature_class if "features" in own else kind.model_class
    for name in own:
        if name not in model_class.settings:
            raise InputError(f"{name} is no setting of a {model_class.__name__}.")
    strategy = get_strategy(strategy)
    with strategy.scope():
        tuned = _build(settings, kind, model_class, own)
        steps = tuned.steps_per_epoch(kind.inputs(train)[0], settings.batch_size)
        _compile(tuned, settings, steps)
    run = RunDirectory(output_directory, settings, resume)
    if is_chief():
        _check_same_data(run.path / "data.json", train, dev)
    checkpoint = RunCheckpoint(tuned, run.checkpoints, seed=settings.seed)
    finished = checkpoint.restore()  # epochs
    if finished < settings.epochs:
        callbacks = [checkpoint, *callbacks]
        if is_chief():
            callbacks.insert(0, MetricsLog(run, steps, settings.epochs, finished * steps))
        if settings.unfreeze_gradually:
            callbacks.append(GradualUnfreezing(settings.frozen_layers))
        tuned.fit(
            *kind.inputs(train),
            batch_size=settings.batch_size,
            epochs=settings.epochs,
            initial_epoch=finished,
            validation_data=kind.inputs(dev),
            callbacks=callbacks,
            verbose=verbose,
            **of_fit,
        )
    if is_chief():
        if settings.is_small:
            save_tuned(tuned, run.model, settings.model)
        else:
            tuned.save_pretrained(run.model)
        # As it was saved, so that whoever loads it finds the same scores.
        saved = load_tuned(run.path, settings.dtype)
        scores = kind.finish(saved, dev, run.path)
        for name, (more_kind, more) in more_dev.items():
            (run.path / name).mkdir(exist_ok=True)
            found = more_kind.finish(saved, more, run.path / name)
            scores |= {f"{name}/{metric}": score for metric, score in found.items()}
        run.write_scores(scores)
    return tuned


def load_tuned(path, dtype=None, base=None):
    """The task model of a run directory or of a model directory, of the class that it names.

    Args:
        path: str or `Path`.
        dtype: Keras dtype policy. Default: that of the run, which its scores are of; for a model
            directory float32.
        base: str or `Path`. Where small weights alone were kept: what they were tuned from.
            Default: where it was.

    Raises:
        InputError: there is none.
    """
    path = Path(path)
    if not (path / "model").is_dir():
        model_class = model_class_of(path, base)
        return model_class.from_pretrained(path, dtype=dtype or "float32", base=base)
    if dtype is None:
        recipe = yaml.safe_load((path / "recipe.yaml").read_text(encoding="utf-8"))
        dtype = recipe["dtype"]
    model_class = model_class_of(path / "model", base)
    return model_class.from_pretrained(path / "model", dtype=dtype, base=base)


def load_embedder(name_or_path, dtype=None):
    """The `TextEmbedder` of a run directory, or of any model directory or name.

    Args:
        name_or_path: str or `Path`.
        dtype: Keras dtype policy. Default: that of the run, else float32.

    Raises:
        InputError: there is none, or the run is of another task.
    """
    if not (Path(name_or_path) / "model").is_dir():
        return TextEmbedder.from_pretrained(name_or_path, dtype=dtype or "float32")
    tuned = load_tuned(name_or_path, dtype)
    if not isinstance(tuned, TextEmbedder):
        raise InputError(f"{name_or_path} holds a {type(tuned).__name__}, which has no vectors.")
    return tuned


def _own_settings(kind, settings):
    """dict of the settings that are the task's own; those of other tasks must not be set."""
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    of_tasks = FinetuneSettings.of_tasks
    chosen = {n: getattr(settings, n) for n in of_tasks if getattr(settings, n) != defaults[n]}
    for name in chosen:
        if name not in kind.settings:
            raise InputError(f"{name} is no setting of a {kind.model_class.__name__}.")
    return chosen


def _build(settings, kind, model_class, own):
    keras.utils.set_random_seed(settings.seed)
    model = model_class.from_pretrained(
        settings.model,
        dtype=settings.dtype,
        dropout=settings.dropout,
        max_length=settings.max_length,
        adapter=settings.adapter,
        **kind.arguments | own,
    )
    choose_weights(model, settings)
    return model


def _compile(model, settings, steps):
    head_rate = settings.head_rate or settings.learning_rate
    model.compile(
        default_optimizer(
            steps * settings.epochs,
            settings.learning_rate,
            settings.weight_decay,
            settings.warmup,
            settings.clip_norm,
            learning_rates(model, settings.layer_decay, head_rate / settings.learning_rate),
        ),
        accumulation_steps=settings.accumulation_steps,
        seed=settings.seed,
        watch_steps=True,
    )


def _check_same_data(path, train, dev):
    """A run that resumes needs the texts it began with: batches are numbers of texts."""
    now = {
        name: {"source": data.source, "examples": len(data), "sha256": data.fingerprint}
        for name, data in (("train", train), ("dev", dev))
    }
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        for name in now:
            if before[name]["sha256"] != now[name]["sha256"]:
                raise InputError(
                    f"{path.parent} holds a run on other {name} texts than {now[name]['source']}; "
                    "give those, or another directory for a new run."
                )
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
