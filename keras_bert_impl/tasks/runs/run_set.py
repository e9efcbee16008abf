"""A set of fine-tuning runs: compares seeds and grids of settings by their scores."""

import dataclasses
import gc
import itertools
import math
import re
import shutil
import statistics
from pathlib import Path

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import replace_directory, write_json
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.tasks.runs.held_examples import as_examples
from keras_bert_impl.tasks.runs.run import finetune, made_of, task_with
from keras_bert_impl.tasks.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.scores.decisions import warn_of_nan
from keras_bert_impl.tasks.scores.metrics import comparable
from keras_bert_impl.training.runs.run_directory import RunDirectory
from keras_bert_impl.training.strategy import num_workers


def finetune_set(
    model,
    train,
    dev,
    output_directory,
    grid,
    strategy="auto",
    resume=True,
    callbacks=(),
    verbose="auto",
    more_dev=None,
    say=lambda text: None,
    **settings,
):
    """Fine-tunes once for each combination of settings and compares the runs.

    The directory contains `runs/NAME`, one run directory each, named after its settings of the
    grid; `scores.json`, the return value of this function; and `model/` and `recipe.yaml`, copies
    of those of the best run, so that the directory can be used like that of a single run. An
    interrupted set resumes: finished runs are kept, even if the grid has grown.

    Settings are selected on `dev`, and the best of many runs is partly the best by chance. Use
    examples that were not used for selection to measure it.

    Args:
        model, train, dev, strategy, resume, callbacks, verbose, more_dev: see `finetune`.
        output_directory: str or `Path` of the set.
        grid: dict of setting -> list of values, such as `{"seed": [1, 2, 3]}` or `PAPER_GRID`; one
            run per combination. Runs that differ only in `seed` form a group.
        say: function of one str, called with the name of each run.
        **settings: the other fields of `FinetuneSettings`, the same for all runs.

    Returns:
        dict: `metric`, the task's first metric, by which groups are compared; `best`, the path of
        the best run in the directory, which has the best score in the group with the best mean
        (the lowest for `mean_squared_error`; NaN ranks last, and so does a group with a NaN run);
        `groups`, best first, each with its `settings`, `runs`, a dict of path -> scores, and
        `scores`, a dict of metric -> `mean`, `std` (sample standard deviation; None for one run),
        `min`, `max`.

    Raises:
        InputError: see `finetune`; no run starts if any combination is not valid.

    Source of `PAPER_GRID`: Devlin et al., "BERT", appendix A.3.

    Example:
        from keras_bert_impl.tasks.runs.settings import PAPER_GRID
        finetune_set("path/to/model", train, dev, "seeds", {"seed": [1, 2, 3]}, epochs=4)
        finetune_set("path/to/model", train, dev, "sweep", PAPER_GRID | {"seed": [1, 2, 3]})
    """
    directory = Path(output_directory)
    train, dev = as_examples(train, "train"), as_examples(dev, "dev")
    if not grid:
        raise InputError("there are no settings to try.")
    runs = combinations(grid, {"model": str(model), **settings})
    _check_possible(directory, runs, resume, train, dev)
    scores = {}
    for number, (path, (_, run_settings)) in enumerate(runs.items(), 1):
        if not (directory / path / "scores.json").exists():
            say(f"run {number} of {len(runs)}: {directory / path}")
            finetune(
                train=train,
                dev=dev,
                output_directory=directory / path,
                strategy=strategy,
                resume=resume,
                callbacks=callbacks,
                verbose=verbose,
                more_dev=more_dev,
                **dataclasses.asdict(run_settings),
            )
            gc.collect()
        scores[path] = read_json(directory / path / "scores.json")
    summary = _summary({path: chosen for path, (chosen, _) in runs.items()}, scores)
    warn_of_nan(scores[summary["best"]], directory / summary["best"])
    _copy_best(directory, directory / summary["best"])
    write_json(directory / "scores.json", summary)
    return summary


def name_of(chosen):
    """Returns a folder name for settings: `batch_size=16,epochs=2`."""
    return ",".join(
        f"{key}={re.sub(r'[^A-Za-z0-9.+-]+', '_', str(value))}" for key, value in chosen.items()
    )


def combinations(grid, settings):
    """Returns the runs of a set.

    Args:
        grid: see `finetune_set`; an empty grid has one combination.
        settings: dict of the other settings.

    Returns:
        dict of path in the set -> (dict of its settings of the grid, its `FinetuneSettings`).

    Raises:
        InputError: a setting or its values are not valid.
    """
    known = {field.name for field in dataclasses.fields(FinetuneSettings)}
    for key, values in grid.items():
        if key not in known:
            raise InputError(f"there is no setting {key!r} to try values of.")
        if key in settings:
            raise InputError(f"{key} has values to be tried, and one value besides: leave that.")
        if not isinstance(values, (list, tuple)) or not values:
            raise InputError(f"{key} needs a list of values to try. Received: {values!r:.60}")
    runs = {}
    # Seeds vary fastest, so that the runs of a group are consecutive.
    keys = sorted(grid, key=lambda key: key == "seed")
    for values in itertools.product(*(grid[key] for key in keys)):
        chosen = dict(zip(keys, values))
        path = f"runs/{name_of(chosen)}"
        if path in runs:
            raise InputError(f"two runs are called {path}: is a value there twice?")
        runs[path] = chosen, FinetuneSettings(**settings, **chosen)
    return runs


def _check_possible(directory, runs, resume, train, dev):
    """Raises the errors of all runs before the first one begins."""
    if num_workers() > 1:
        raise InputError(
            f"a set of runs is for one worker, not {num_workers()}; start each run with its own "
            "settings."
        )
    if (directory / "checkpoints").exists():
        raise InputError(f"{directory} holds a single run; give another directory for a set.")
    for path, (_, settings) in runs.items():
        task_with(settings, train, dev)
        if (directory / path).exists():
            read = made_of(settings, train, dev)
            RunDirectory(directory / path, settings, resume, made_of=read)


def _summary(chosen, scores):
    """Summarizes the runs as a dict; see `finetune_set`.

    Args:
        chosen: dict of path -> the run's settings of the grid.
        scores: dict of path -> its scores.
    """
    metric = next(iter(next(iter(scores.values()))))
    groups = {}
    for path, values in chosen.items():
        without_seed = {key: value for key, value in values.items() if key != "seed"}
        group = groups.setdefault(name_of(without_seed), {"settings": without_seed, "runs": {}})
        group["runs"][path] = scores[path]
    for group in groups.values():
        first, *others = group["runs"].values()
        # Entities have scores by type, and not every run predicts every type.
        names = [name for name in first if all(name in run for run in others)]
        group["scores"] = {name: _spread(_values(group, name)) for name in names}

    def rank(score):
        """float. Sort key of scores from the best to the worst, NaN last."""
        return math.inf if math.isnan(score) else -comparable(metric, score)

    def rank_of_group(group):
        return rank(group["scores"][metric]["mean"]), *sorted(map(rank, _values(group, metric)))

    ranked = sorted(groups.values(), key=rank_of_group)
    best = min(ranked[0]["runs"], key=lambda path: rank(scores[path][metric]))
    return {"metric": metric, "best": best, "groups": ranked}


def _values(group, metric):
    return [scores[metric] for scores in group["runs"].values()]


def _spread(values):
    """Computes mean, standard deviation and range as a dict; NaN if any value is NaN."""
    if any(map(math.isnan, values)):  # `stdev` rejects NaN, and `min` ignores it
        return dict.fromkeys(("mean", "std", "min", "max"), math.nan)
    return {
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }


def _copy_best(directory, best):
    with replace_directory(directory) as temporary:
        shutil.copytree(best / "model", temporary / "model")
        shutil.copyfile(best / "recipe.yaml", temporary / "recipe.yaml")
