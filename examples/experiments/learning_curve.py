"""Fine-tunes a model on parts of the training set, to estimate how many labels are needed.

    python -m examples.experiments.learning_curve --model sentence-transformers/all-MiniLM-L6-v2 \\
        --train train.csv --dev dev.csv --text body --label tag --tune full:1e-4,lora --out curve
"""

import collections
import dataclasses
import gc
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.experiments.arguments import numbers, parser_of, print_table, run, shown
from keras_bert_impl import InputError, finetune
from keras_bert_impl.data.scores.comparison import BASELINES
from keras_bert_impl.data.scores.statistics import described_runs
from keras_bert_impl.reports import page
from keras_bert_impl.reports.charts import SERIES, Axis, Series, curves
from keras_bert_impl.runs.run import settings_for, task_with


def learning_curve(
    model: str | Path,
    train: Any,
    dev: Any,
    output_directory: str | Path,
    sizes: Sequence[int] = (8, 32, 128),
    tuning: Mapping[str, float | None] | Sequence[str] = ("full", "lora", "head"),
    seeds: Sequence[int] = (1, 2, 3),
    say: Callable[[str], Any] = print,
    **options: Any,
) -> dict[str, Any]:
    """Fine-tunes a model on random samples of the training set and scores all runs on `dev`.

    For each seed, larger samples contain the smaller samples, and all tuning methods train on the
    same samples. The directory contains the run directories `runs/size=8,tuning=full,seed=1`, ...;
    `scores.json` with the return value; and `report.html` with the curves. `scores.json` and
    `report.html` are written after each size. An interrupted experiment resumes.

    Args:
        train, dev: labeled examples from a reader such as `read_table`.
        sizes: numbers of examples per class, in ascending order; in total for examples that do not
            have one class each. Only the last size may use the whole training set.
        tuning: tuning methods, or a dict of tuning method -> learning rate (None for the default).
        **options: other arguments of `finetune`. The default of `min_steps` is 200.

    Returns:
        A dict of `metric`, the name of the score, and `curves`, a dict of tuning method or
        baseline -> list of points. A point is a dict of `size`; `examples`, the size of the
        training set; `value`, `low` and `high`, the mean over the seeds and its 95% interval by
        Student's t-distribution; and `scores`, the score for each seed.
    """
    directory = Path(output_directory)
    rates = tuning if isinstance(tuning, Mapping) else dict.fromkeys(tuning)
    options = {"min_steps": 200} | options
    for name, values in (("sizes", sizes), ("tuning methods", rates), ("seeds", seeds)):
        if not values or len(set(values)) < len(values):
            raise InputError(f"{name} must be different values. Received: {list(values)}")
    settings = {
        (way, seed): _settings(model, train, dev, {"tuning": way, "seed": seed}, rate, options)
        for way, rate in rates.items()
        for seed in seeds
    }
    samples = {
        (size, seed): draw_examples(train, size, seed) for size in sorted(sizes) for seed in seeds
    }
    for size, next_size in itertools.pairwise(sorted(sizes)):
        if len(samples[size, seeds[0]]) == len(train):
            raise InputError(
                f"the size {size} already uses all examples of {train.source}. Leave out the size "
                f"{next_size}."
            )
    scores: dict[tuple, dict[str, float]] = {}
    for size in sorted(sizes):
        for way, seed in settings:
            run = directory / f"runs/size={size},tuning={way},seed={seed}"
            if not (run / "scores.json").exists():
                say(f"run {len(scores) + 1} of {len(sizes) * len(settings)}: {run}")
                sample = samples[size, seed]
                finetune(train=sample, dev=dev, output_directory=run, **settings[way, seed])
                gc.collect()
            scores[size, way, seed] = json.loads((run / "scores.json").read_text())
        summary = _summary(scores, samples)
        (directory / "scores.json").write_text(json.dumps(summary, indent=2))
        _write_page(summary, directory / "report.html")
    return summary


def draw_examples(examples: Any, count: int, seed: int = 1) -> Any:
    """Draws `count` examples per class, or all examples of a class that has fewer.

    If the examples do not have one class each, `count` examples are drawn in total. If two draws
    use the same seed, the smaller draw is a subset of the larger draw.
    """
    labels = examples.labels
    has_classes = examples.label_counts()[0] == "classes" and not isinstance(labels[0], list)
    rows = collections.defaultdict(list)
    for row, label in enumerate(labels if has_classes else [0] * len(examples)):
        rows[label].append(row)
    draw = np.random.default_rng(seed)
    chosen = [draw.permutation(rows[label])[:count] for label in sorted(rows)]
    drawn = examples.select(np.sort(np.concatenate(chosen)).tolist())
    # A sample may lack a label of the training set.
    is_named = not (has_classes and isinstance(labels[0], str)) or examples.label_names
    names = {} if is_named else {"label_names": sorted(rows)}
    return drawn.replace(source=f"{examples.source} ({count} per class)", read_with=None, **names)


def _settings(model, train, dev, settings, rate, options):
    """Returns the arguments of a run. The metric depends on the whole training set."""
    for name in settings.keys() & options.keys():
        raise InputError(f"leave out {name}: the experiment sets it for each run.")
    settings |= options | ({} if rate is None else {"learning_rate": rate})
    fields = {field.name for field in dataclasses.fields(settings_for(train))}
    chosen = {name: value for name, value in settings.items() if name in fields}
    task = task_with(settings_for(train)(model=str(model), **chosen), train, dev)
    return {"model": model, "metric": task.metric} | settings


def _summary(scores, samples):
    metric = next(iter(next(iter(scores.values()))))
    ways = dict.fromkeys(way for _, way, _ in scores)
    columns = [(way, way, metric) for way in ways]
    # The baselines are the same for all tuning methods.
    columns += [(name, next(iter(ways)), f"{name}/{metric}") for name in BASELINES]
    curves: dict[str, list[dict]] = {}
    for name, way, key in columns:
        points: dict[int, dict[int, float]] = {}
        for (size, other, seed), of_run in scores.items():
            if other == way and key in of_run:
                points.setdefault(size, {})[seed] = of_run[key]
        for size, by_seed in points.items():
            examples = len(samples[size, next(iter(by_seed))])
            of_seeds = [*by_seed.values()]
            point = {"size": size, "examples": examples, **described_runs(of_seeds)}
            curves.setdefault(name, []).append(point | {"scores": of_seeds})
    return {"metric": metric, "curves": curves}


def _write_page(summary, path):
    drawn, rows = [], []
    for (name, points), color in zip(summary["curves"].items(), itertools.cycle(SERIES)):
        bounds = [(point["low"], point["high"]) for point in points if point["low"] is not None]
        sizes, means = ([point[key] for point in points] for key in ("size", "value"))
        drawn.append(Series(name, sizes, means, color, bounds=bounds))
        rows += [[name, point["size"], point["examples"], shown(point)] for point in points]
    metric = summary["metric"]
    axes = Axis("size", is_logarithmic=True), Axis(metric)
    chart = curves("learning-curve", f"{metric} by size of the training set", drawn, *axes)
    note = "Mean score over the seeds, with a 95% interval by Student's t-distribution."
    table = page.table(["", "size", "examples", metric], rows, first="cell")
    sections = [
        page.Section("Curves", page.charts([chart]) + page.paragraph(note), [chart]),
        page.Section("Scores", table),
    ]
    page.save_page(path, page.page("Learning curve", page.escape(metric), sections))


def rates(text: str) -> dict[str, float | None]:
    """argparse type: tuning methods, each with an optional learning rate, such as full:1e-4,lora."""
    parts = [part.partition(":") for part in text.split(",")]
    return {name: float(rate) if rate else None for name, _, rate in parts}


def _run(arguments, train, dev, settings):
    out, sizes = Path(arguments.out), arguments.sizes
    ways = {"tuning": arguments.tuning, "seeds": arguments.seeds}
    found = learning_curve(arguments.model, train, dev, out, sizes, **ways, **settings)["curves"]
    points = {(name, point["size"]): point for name, of in found.items() for point in of}
    lines = [["size", "examples", *found]]
    for size in sorted(sizes):
        cells = [shown(points[name, size]) if (name, size) in points else "-" for name in found]
        lines.append([size, points[next(iter(found)), size]["examples"], *cells])
    print_table(lines)
    print(f"wrote the curves to {out / 'report.html'}")


def main(argv: list[str] | None = None) -> None:
    parser = parser_of("examples.experiments.learning_curve", __doc__)
    parser.add_argument("--model", required=True, help="model directory or published name")
    parser.add_argument("--sizes", type=numbers, default=[8, 32, 128], help="examples per class")
    parser.add_argument(
        "--tune",
        dest="tuning",
        type=rates,
        default="full,lora,head",
        metavar="NAME:RATE,NAME",
        help="tuning methods, with learning rates that replace the defaults",
    )
    run(parser, argv, _run)


if __name__ == "__main__":
    main()
