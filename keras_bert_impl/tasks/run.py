"""A fine-tuning run: labelled texts in, a run directory out, resumable on the way."""

import csv
import json
import math
from pathlib import Path

import keras
import numpy as np
import yaml

from keras_bert_impl.errors import InputError
from keras_bert_impl.files import replace_file
from keras_bert_impl.tasks.metrics import METRICS
from keras_bert_impl.tasks.settings import FinetuneSettings
from keras_bert_impl.tasks.raw_text import default_optimizer
from keras_bert_impl.tasks.text_classifier import REGRESSION, SINGLE, TextClassifier
from keras_bert_impl.training.checkpoints import RunCheckpoint
from keras_bert_impl.training.run_directory import MetricsLog, RunDirectory
from keras_bert_impl.training.strategy import get_strategy, is_chief


def finetune(
    model,
    train,
    dev,
    output_directory,
    strategy="auto",
    resume=True,
    callbacks=(),
    verbose="auto",
    **settings,
):
    """Fine-tunes a classifier or a regression and writes a run directory.

    The directory holds `model/`, which `from_pretrained` and `transformers` load, `recipe.yaml`,
    `data.json`, `metrics.jsonl`, `scores.json` and `predictions.tsv` (of `dev`, by the model as it
    was saved) and `checkpoints/`. A run that was interrupted goes on from its newest checkpoint,
    the end of an epoch, with the batches and the dropout of the undisturbed run.

    Args:
        model: str or `Path` of a model directory.
        train: `Examples`, as from `read_glue` and `read_table`, with labels.
        dev: `Examples` to score the model on.
        output_directory: str or `Path` of the run directory.
        strategy: str, as for `get_strategy`.
        resume: bool. Whether to go on if the directory holds a run.
        callbacks: Keras callbacks for `fit`.
        verbose: as for `fit`.
        **settings: fields of `FinetuneSettings`.

    Returns:
        `TextClassifier`, tuned.

    Raises:
        InputError: settings, texts, labels or a model that cannot be used; says which.

    Example:
        data = {split: read_glue("mrpc", "glue", split) for split in ("train", "dev")}
        finetune("path/to/model", data["train"], data["dev"], "run", epochs=4)
    """
    settings = FinetuneSettings(model=str(model), **settings)
    names, train_labels, dev_labels = _labels(train, dev)
    strategy = get_strategy(strategy)
    steps = math.ceil(len(train) / settings.batch_size)
    with strategy.scope():
        classifier = _build(settings, names, steps)
    run = RunDirectory(output_directory, settings, resume)
    if is_chief():
        _check_same_data(run.path / "data.json", train, dev)
    checkpoint = RunCheckpoint(classifier, run.checkpoints, seed=settings.seed)
    finished = checkpoint.restore()  # epochs
    if finished < settings.epochs:
        log = MetricsLog(run.metrics, steps, initial_step=finished * steps)
        classifier.fit(
            train.texts,
            train_labels,
            batch_size=settings.batch_size,
            epochs=settings.epochs,
            initial_epoch=finished,
            validation_data=(dev.texts, dev_labels),
            callbacks=[log, checkpoint, *callbacks] if is_chief() else [checkpoint, *callbacks],
            verbose=verbose,
        )
    if is_chief():
        classifier.save_pretrained(run.model)
        _score(run, settings, dev, dev_labels)
    return classifier


def load_classifier(path, dtype=None):
    """The classifier of a run directory or of a model directory.

    Args:
        path: str or `Path`.
        dtype: Keras dtype policy. Default: that of the run, which its scores are of; for a model
            directory float32.

    Raises:
        InputError: there is none.
    """
    path = Path(path)
    if not (path / "model").is_dir():
        return TextClassifier.from_pretrained(path, dtype=dtype or "float32")
    if dtype is None:
        recipe = yaml.safe_load((path / "recipe.yaml").read_text(encoding="utf-8"))
        dtype = recipe["dtype"]
    return TextClassifier.from_pretrained(path / "model", dtype=dtype)


def _labels(train, dev):
    """Names of the classes (None for numbers), and the labels of both sets for the loss."""
    for examples in (train, dev):
        if not len(examples) or examples.labels is None:
            raise InputError(f"{examples.source} has no labelled texts.")
    if train.is_numeric:
        return None, np.array(train.labels, "float32"), np.array(dev.labels, "float32")
    names = train.label_names or sorted(set(train.labels))
    if len(names) < 2:
        raise InputError(f"{train.source}: all texts have the label {names[0]!r}.")
    return names, train.class_numbers(names), dev.class_numbers(names)


def _build(settings, names, steps):
    keras.utils.set_random_seed(settings.seed)
    classifier = TextClassifier.from_pretrained(
        settings.model,
        dtype=settings.dtype,
        dropout=settings.dropout,
        max_length=settings.max_length,
        problem_type=REGRESSION if names is None else SINGLE,
        **({"num_classes": 1} if names is None else {"labels": list(names)}),
    )
    classifier.compile(
        default_optimizer(
            steps * settings.epochs,
            settings.learning_rate,
            settings.weight_decay,
            settings.warmup,
            settings.clip_norm,
        ),
        accumulation_steps=settings.accumulation_steps,
        seed=settings.seed,
    )
    return classifier


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


def _score(run, settings, dev, dev_labels):
    """Scores the model as it was saved, so that whoever loads it finds the same."""
    classifier = load_classifier(run.path, settings.dtype)
    scores = classifier.predict(dev.texts, verbose=0)
    if classifier.problem_type == REGRESSION:
        predictions = scores[:, 0]
        metrics = dev.metrics or ("pearson", "spearman", "mean_squared_error")
    else:
        predictions = scores.argmax(axis=-1)
        metrics = dev.metrics or ("accuracy", "macro_f1")
    run.write_scores({name: METRICS[name](dev_labels, predictions) for name in metrics})
    write_predictions(run.path / "predictions.tsv", classifier, scores)


def write_predictions(path, classifier, scores):
    """Writes a line for each text: its number, the label, and the score of every class.

    Args:
        path: str or `Path` of the `.tsv` file.
        classifier: `TextClassifier` of a single label or a regression.
        scores: float32 `[texts, num_classes]`, from `predict`.
    """
    columns = ["index", "label", *classifier.labels]
    if classifier.problem_type == REGRESSION:
        columns = ["index", *classifier.labels]
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(columns)
        for number, row in enumerate(scores):
            label = [classifier.labels[row.argmax()]] if "label" in columns[:2] else []
            # Nine digits give a float32 back exactly.
            writer.writerow([number, *label, *(f"{score:.9g}" for score in row)])
