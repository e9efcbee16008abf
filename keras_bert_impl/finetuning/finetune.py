"""Fine-tuning runs with reports: a single run, or a set of runs that compares settings."""

import dataclasses
import gc
import itertools
import logging
import math
import re
import shutil
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras

from keras_bert_impl.data.scores.decisions import undefined, warn_of_nan
from keras_bert_impl.data.scores.metrics import comparable
from keras_bert_impl.data.tables.examples import LabeledExamples
from keras_bert_impl.reports.run_report import describe_run, is_described
from keras_bert_impl.runs.inputs import as_examples, made_of, with_named_classes
from keras_bert_impl.runs.run import settings_for, task_with, tune
from keras_bert_impl.runs.settings import MAY_CHANGE, FinetuneSettings
from keras_bert_impl.tasks.base.task_model import TaskModel
from keras_bert_impl.training.runs.reports import DivergedError
from keras_bert_impl.training.runs.run_directory import RunDirectory, remove_checkpoints
from keras_bert_impl.training.strategy import is_chief, num_workers
from keras_bert_impl.training.workers import reports_lost_workers
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.files import replace_directory, write_json
from keras_bert_impl.utils.io.paths import local_path
from keras_bert_impl.utils.io.run_files import read_scores

_LOG = logging.getLogger(__name__)


@reports_lost_workers
def finetune(
    model: str | Path,
    train: LabeledExamples | tuple,
    dev: LabeledExamples | tuple,
    output_directory: str | Path,
    strategy: Any = "auto",
    resume: bool = True,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    verbose: int | str = "auto",
    more_dev: dict[str, LabeledExamples | tuple] | None = None,
    keep_checkpoints: bool = False,
    read_with: dict[str, Any] | None = None,
    **settings: Any,
) -> TaskModel:
    """Fine-tunes a model on a task and writes a run directory.

    The directory contains `model/`, which `from_pretrained` and `transformers` load. If only some
    weights are trained (see `TuningSettings`), `from_pretrained` loads them with the base model;
    `peft` loads LoRA weights. The run directory also contains `recipe.yaml`, `data.json`, `metrics.jsonl`,
    `tensorboard/` and `report.html`. The results of the saved model on `dev` are in `scores.json`
    and `predictions.tsv`, and for questions in the three files of SQuAD. The teacher of a
    distillation (see `ObjectiveSettings`) is not saved.

    An interrupted run resumes from its newest checkpoint, which is at most `checkpoint_minutes`
    old. Batches and dropout are the same as in an uninterrupted run. A finished run removes its
    checkpoints and is not trained again.

    Args:
        model: a model directory.
        train: training examples. Their type determines the model: `Examples` from `read_glue` or
            `read_table` train a `TextClassifier`; `TaggedExamples` from `read_columns` or
            `read_conllu`, a `TokenClassifier`; `QuestionExamples` from `read_squad`, a
            `QuestionAnswerer`; `ChoiceExamples` from `read_choices`, a `MultipleChoice`;
            `SimilarityExamples` (pairs with numbers) or `AnchorExamples` (pairs or triplets without
            labels), a `TextEmbedder`. A tuple (texts, labels) is converted by `as_examples`. For
            several files, see `join_examples`.
        dev: validation examples of the same type.
        output_directory: the run directory.
        strategy: see `get_strategy`.
        resume: whether to resume if the directory contains a run.
        callbacks: see `fit` of Keras.
        verbose: output on stderr: 0 for none; 1 (or `"auto"`) for a summary of the data, a progress
            bar and a line per epoch; 2 for the same output without the bar.
        more_dev: dict of name -> additional validation set, such as MNLI's mismatched set. The
            scores of a set are named `NAME/...`, and the predictions are in the folder NAME.
        keep_checkpoints: whether to keep the checkpoints of a finished run.
        read_with: options for reading files, which `keras-bert predict` and `evaluate` use as
            defaults. Default: the options with which the examples were read.
        **settings: fields of `FinetuneSettings`.

    Returns:
        The fine-tuned model.

    Raises:
        InputError: settings, texts, labels or the model are invalid.

    Example:
        from keras_bert_impl.tasks import read_glue
        data = {split: read_glue("mrpc", "glue", split) for split in ("train", "dev")}
        finetune("path/to/model", data["train"], data["dev"], "run", epochs=4)
    """
    tuned = tune(
        *(model, train, dev, output_directory, strategy, resume, callbacks, verbose),
        more_dev=more_dev,
        read_with=read_with,
        **settings,
    )
    if is_chief():
        # A killed process may have skipped this step.
        if tuned.is_new or not is_described(tuned.path):
            describe_run(tuned.path, tuned.model, tuned.dev)
        if not keep_checkpoints:
            remove_checkpoints(tuned.path)  # Checkpoints are removed last.
    return tuned.model


# === Sets of runs ===


def finetune_set(
    model: str | Path,
    train: LabeledExamples | tuple,
    dev: LabeledExamples | tuple,
    output_directory: str | Path,
    grid: dict[str, list],
    strategy: Any = "auto",
    resume: bool = True,
    callbacks: Iterable = (),
    verbose: int | str = "auto",
    more_dev: dict[str, LabeledExamples | tuple] | None = None,
    keep_checkpoints: bool = False,
    read_with: dict[str, Any] | None = None,
    say: Callable[[str], Any] = lambda text: None,
    **settings: Any,
) -> dict[str, Any]:
    """Fine-tunes once for each combination of settings and compares the runs.

    The directory contains the run directories `runs/NAME`, named after their settings in the grid;
    `scores.json` with the return value of this function; and `model/`, `recipe.yaml` and
    `data.json` of the best run. The directory can be used like the directory of a single run.

    If a call is interrupted, the next call resumes and does not train finished runs again. The next
    call may add values to the grid.

    Settings are selected on `dev`, so the score of the best run is too optimistic. Evaluate the
    best model on a test set.

    Args:
        model, train, dev, strategy, resume, callbacks, verbose: see `finetune`.
        more_dev, keep_checkpoints, read_with: see `finetune`.
        output_directory: directory of the set.
        grid: dict of setting -> list of values, such as `{"seed": [1, 2, 3]}` or `PAPER_GRID`; each
            combination is one run. Runs that differ only in `seed` form a group.
        say: function that is called with the name of each run.
        **settings: fields of `FinetuneSettings` that are not in the grid, for all runs.

    Returns:
        A dict of `metric`, the task's first metric; `groups`, a list of dicts, from the best to the
        worst mean of `metric`; and `best`, the path of the best run in the best group. For
        `mean_squared_error`, the lowest value is the best. NaN, also the score of a run without
        finite weights, is the worst value.

        A group contains `settings`; `runs`, a dict of path -> scores; and `scores`, a dict of
        metric -> `mean`, `std` (sample standard deviation; None for one run), `min`, `max`.

    Raises:
        InputError: see `finetune`. All runs are checked before the first run starts.

    Source of `PAPER_GRID`: Devlin et al., "BERT", appendix A.3.

    Example:
        from keras_bert_impl.runs.settings import PAPER_GRID
        finetune_set("path/to/model", train, dev, "seeds", {"seed": [1, 2, 3]}, epochs=4)
        finetune_set("path/to/model", train, dev, "sweep", PAPER_GRID | {"seed": [1, 2, 3]})
    """
    directory = local_path(output_directory)
    train, dev = with_named_classes(as_examples(train, "train"), as_examples(dev, "dev"))
    runs = checked_runs(directory, train, dev, grid, {"model": str(model), **settings}, resume)
    scores: dict[str, Any] = {}
    for number, (path, (_, run_settings)) in enumerate(runs.items(), 1):
        try:
            scores[path] = run_once(
                directory / path,
                run_settings,
                train,
                dev,
                f"run {number} of {len(runs)}",
                say,
                strategy=strategy,
                resume=resume,
                callbacks=callbacks,
                verbose=verbose,
                more_dev=more_dev,
                keep_checkpoints=keep_checkpoints,
                read_with=read_with,
            )
        except DivergedError as error:
            if number == len(runs) and not any(scores.values()):
                raise
            _LOG.warning("%s has no scores: %s", path, error)
            scores[path] = None
    names = next(filter(None, scores.values()))
    scores = {path: run_scores or undefined(names) for path, run_scores in scores.items()}
    summary = _build_summary(
        {path: grid_settings for path, (grid_settings, _) in runs.items()}, scores
    )
    warn_of_nan(scores[summary["best"]], directory / summary["best"])
    best = directory / summary["best"]
    with replace_directory(directory) as temporary:
        shutil.copytree(best / "model", temporary / "model")
        for name in ("recipe.yaml", "data.json"):
            shutil.copyfile(best / name, temporary / name)
        write_json(temporary / "scores.json", summary)
    return summary


def run_once(
    path: Path,
    settings: FinetuneSettings,
    train: LabeledExamples,
    dev: LabeledExamples,
    title: str,
    say: Callable[[str], Any],
    **options: Any,
) -> dict[str, float]:
    """Fine-tunes a model unless its run is finished, and returns the scores of the run."""
    if not (path / "scores.json").exists():
        say(f"{title}: {path}")
        finetune(
            train=train,
            dev=dev,
            output_directory=path,
            **options,
            **dataclasses.asdict(settings),
        )
        gc.collect()
    elif not options.get("keep_checkpoints"):
        remove_checkpoints(path)  # A killed process may have skipped this step.
    return read_scores(path / "scores.json")


def name_of(chosen: dict[str, Any]) -> str:
    """Returns the folder name of settings, such as `batch_size=16,epochs=2`."""
    return ",".join(
        f"{key}={re.sub(r'[^A-Za-z0-9.+-]+', '_', str(value))}" for key, value in chosen.items()
    )


def combinations(
    grid: dict[str, list],
    settings: dict[str, Any],
    settings_class: type[FinetuneSettings] = FinetuneSettings,
) -> dict[str, tuple[dict[str, Any], FinetuneSettings]]:
    """Returns {path of a run: (settings from the grid, all settings)} for all runs of a set."""
    setting_names = {field.name for field in dataclasses.fields(settings_class)}
    for key, values in grid.items():
        if key not in setting_names:
            raise InputError(f"grid: unknown setting {key!r}.")
        if key in settings:
            raise InputError(f"{key} has values in the grid and a fixed value. Remove one of them.")
        if not isinstance(values, (list, tuple)) or not values:
            raise InputError(f"grid: {key} needs a list of values. Received: {values!r:.60}")
    runs: dict[str, tuple[dict[str, Any], FinetuneSettings]] = {}
    # The seed varies fastest, so that the runs of a group are consecutive.
    keys = sorted(grid, key=lambda key: key == "seed")
    for combination in itertools.product(*(grid[key] for key in keys)):
        grid_settings = dict(zip(keys, combination))
        path = f"runs/{name_of(grid_settings)}"
        if path in runs:
            raise InputError(
                f"two runs have the same name, {path}. Remove repeated values from the grid."
            )
        runs[path] = grid_settings, settings_class(**settings, **grid_settings)
    return runs


def checked_runs(
    directory: Path,
    train: LabeledExamples,
    dev: LabeledExamples,
    grid: dict[str, list],
    settings: dict[str, Any],
    resume: bool,
) -> dict[str, tuple[dict[str, Any], FinetuneSettings]]:
    """Checks that all runs of a set can start, and returns them; see `combinations`."""
    if not grid:
        raise InputError("grid is empty: pass at least one setting with its values.")
    runs = combinations(grid, settings, settings_for(train))
    check_set(directory)
    for path, (_, run_settings) in runs.items():
        check_run(directory / path, run_settings, train, dev, resume)
    return runs


def check_set(directory: Path) -> None:
    """Raises `InputError` if a set of runs cannot be written to a directory."""
    if num_workers() > 1:
        raise InputError(
            f"a set of runs supports one worker, not {num_workers()}. Start each run separately."
        )
    if (directory / "checkpoints").exists():
        raise InputError(f"{directory} contains a single run. Choose another directory.")


def check_run(
    path: Path,
    settings: FinetuneSettings,
    train: LabeledExamples,
    dev: LabeledExamples,
    resume: bool,
) -> None:
    """Raises `InputError` if a run can neither start nor resume."""
    task_with(settings, train, dev)
    if path.exists():
        RunDirectory(path, settings, resume, MAY_CHANGE, made_of(settings, train, dev))


def _build_summary(grid_settings, scores):
    metric = next(iter(next(iter(scores.values()))))
    groups: dict[str, dict] = {}
    for path, values in grid_settings.items():
        without_seed = {key: value for key, value in values.items() if key != "seed"}
        group = groups.setdefault(name_of(without_seed), {"settings": without_seed, "runs": {}})
        group["runs"][path] = scores[path]
    for group in groups.values():
        first, *remaining = group["runs"].values()
        # Entities have scores for each type, and not every run predicts all types.
        names = [name for name in first if all(name in run for run in remaining)]
        group["scores"] = {name: spread_of(_collect_scores(group, name)) for name in names}

    def rank(score):
        """Sort key of scores: the best first, NaN last."""
        return math.inf if math.isnan(score) else -comparable(metric, score)

    def rank_of_group(group):
        return rank(group["scores"][metric]["mean"]), *sorted(
            map(rank, _collect_scores(group, metric))
        )

    ranked = sorted(groups.values(), key=rank_of_group)
    best = min(ranked[0]["runs"], key=lambda path: rank(scores[path][metric]))
    return {"metric": metric, "best": best, "groups": ranked}


def _collect_scores(group, metric):
    return [scores[metric] for scores in group["runs"].values()]


def spread_of(values: list[float]) -> dict[str, float | None]:
    """Returns mean, standard deviation and range; NaN if any value is NaN."""
    if any(map(math.isnan, values)):  # `stdev` rejects NaN, and `min` ignores it
        return dict.fromkeys(("mean", "std", "min", "max"), math.nan)
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }
