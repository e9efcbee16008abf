"""Learning curves: the score for several sizes of the training set and tuning methods."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_impl.experiments.questions import checked_seeds
from keras_bert_impl.finetuning import check_run, check_set, name_of, run_once
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.files import write_json
from keras_bert_impl.io.paths import local_path
from keras_bert_impl.io.settings import PositiveInt, check
from keras_bert_impl.reports.curve_page import write_curve_page
from keras_bert_impl.runs.inputs import as_examples, with_named_classes
from keras_bert_impl.runs.run import settings_for, task_with
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks.data.examples import LabeledExamples
from keras_bert_impl.tasks.data.splits import few_examples, with_all_names
from keras_bert_impl.tasks.scores.comparison import BASELINES
from keras_bert_impl.tasks.scores.statistics import described_runs


def learning_curve(
    model: str | Path,
    train: LabeledExamples | tuple,
    dev: LabeledExamples | tuple,
    output_directory: str | Path,
    sizes: Sequence[int] = (8, 32, 128),
    tuning: Sequence[str] | dict[str, float | None] = ("full", "lora", "head"),
    seeds: Sequence[int] = (1, 2, 3),
    min_steps: int | None = 200,
    resume: bool = True,
    say: Callable[[str], Any] = lambda text: None,
    **options: Any,
) -> dict[str, Any]:
    """Fine-tunes a model on parts of the training set, to estimate how many labels are needed.

    Each run trains on a random sample with `size` examples per class. For tasks other than
    single-label classification, `size` is the total number of examples. For each seed, larger
    samples contain the smaller samples, and all tuning methods train on the same samples. All runs
    are scored on `dev`.

    The directory contains the run directories `runs/size=8,tuning=full,seed=1`, ...; `scores.json`
    with the return value of this function; and `report.html` with the curves. `scores.json` and
    `report.html` are written after each size. An interrupted experiment resumes.

    Args:
        model: see `finetune`.
        train: labeled examples to sample from; see `finetune`.
        dev: examples to score on.
        output_directory: directory to write.
        sizes: numbers of examples per class, in ascending order. If a class has fewer examples, all
            examples of the class are used. Only the last size may use the whole training set.
        tuning: tuning methods, see `TuningSettings`; or a dict of tuning method -> learning rate,
            with None for the default rate.
        seeds: seeds of the runs. The seed also determines the sample.
        min_steps: see `FinetuneSettings`.
        resume: see `finetune`.
        say: function that is called with the name of each run.
        **options: `strategy`, `callbacks`, `verbose` and `keep_checkpoints` of `finetune`, and
            fields of `FinetuneSettings`, for all runs.

    Returns:
        A dict of `metric`, the name of the score, and `curves`, a dict of tuning method or
        baseline -> list of points. A point is a dict of `size`; `examples`, the size of the
        training set; `value`, the mean over the seeds; `low` and `high`, the bounds of the 95%
        interval by Student's t-distribution (None for one seed); and `scores`, the score for each
        seed.

    Raises:
        InputError: see `finetune`. All runs are checked before the first run starts.

    Example:
        from keras_bert_impl.experiments import learning_curve
        learning_curve("path/to/model", train, dev, "curve", sizes=[8], tuning=["head"], seeds=[1])
    """
    directory = local_path(output_directory)
    train, dev = with_named_classes(as_examples(train, "train"), as_examples(dev, "dev"))
    train = with_all_names(train)
    own = ("strategy", "callbacks", "verbose", "keep_checkpoints")
    of_run = {name: options.pop(name) for name in own if name in options} | {"resume": resume}
    settings = {"model": str(model), "min_steps": min_steps, **options}
    rates = tuning if isinstance(tuning, dict) else dict.fromkeys(tuning)
    if not rates:
        raise InputError("tuning must contain at least one tuning method.")
    sizes, seeds = _checked_sizes(sizes), checked_seeds(seeds)
    parts = _parts(train, sizes, seeds)
    runs = [
        _Run(size, way, seed, _settings(train, dev, settings, way, rate, seed))
        for size, (way, rate), seed in itertools.product(sizes, rates.items(), seeds)
    ]
    check_set(directory)
    for run in runs:
        part = parts[run.size, run.seed]
        check_run(directory / run.path, run.settings, part, dev, resume)
    found: list[tuple[_Run, dict[str, float]]] = []
    for number, run in enumerate(runs, 1):
        title, part = f"run {number} of {len(runs)}", parts[run.size, run.seed]
        path = directory / run.path
        found.append((run, run_once(path, run.settings, part, dev, title, say, **of_run)))
        if number % (len(rates) * len(seeds)) == 0:
            summary = _summary(found, {key: len(part) for key, part in parts.items()})
            write_json(directory / "scores.json", summary)
            write_curve_page(summary, directory / "report.html")
    return summary


class _Run(NamedTuple):
    size: int
    way: str
    seed: int
    settings: FinetuneSettings

    @property
    def path(self):
        return f"runs/{name_of({'size': self.size, 'tuning': self.way, 'seed': self.seed})}"


def _checked_sizes(sizes):
    sizes = check("sizes", sizes, tuple[PositiveInt, ...])
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise InputError(f"sizes must be in ascending order. Received: {list(sizes)}")
    return sizes


def _parts(train, sizes, seeds):
    """Samples the training sets. Returns {(size, seed): examples}."""
    parts = {(size, seed): few_examples(train, size, seed) for seed in seeds for size in sizes}
    for size, next_size in zip(sizes, sizes[1:]):
        if len(parts[size, seeds[0]]) == len(train):
            raise InputError(
                f"the size {size} already uses all examples of {train.source}. "
                f"Leave out the size {next_size}."
            )
    return parts


def _settings(train, dev, settings, way, rate, seed):
    """Returns the settings of a run. The metric depends on the whole training set."""
    settings = settings | {"tuning": way, "seed": seed}
    if rate is not None:
        settings["learning_rate"] = rate
    chosen = settings_for(train)(**settings)
    return dataclasses.replace(chosen, metric=task_with(chosen, train, dev).metric)


def _summary(found, lengths):
    first, scores = found[0]
    metric = next(iter(scores))
    curves: dict[str, dict[int, list[float]]] = {}
    for name, way, key in [
        *((way, way, metric) for way in dict.fromkeys(run.way for run, _ in found)),
        *((name, first.way, f"{name}/{metric}") for name in BASELINES),  # the same for all ways
    ]:
        for run, scores in found:
            if run.way == way and key in scores:
                curves.setdefault(name, {}).setdefault(run.size, []).append(scores[key])
    return {
        "metric": metric,
        "curves": {
            name: [_point(size, lengths[size, first.seed], values) for size, values in of.items()]
            for name, of in curves.items()
        },
    }


def _point(size, examples, scores):
    return {"size": size, "examples": examples, **described_runs(scores), "scores": scores}
