"""`keras-bert drift`: compares served texts with those that a model was trained on."""

import dataclasses
import functools
from argparse import ArgumentParser, Namespace

import numpy as np

from keras_bert_impl.cli.common import add_tuned_model, print_json, print_table
from keras_bert_impl.cli.inputs import add_inputs, read_inputs
from keras_bert_impl.cli.kinds import PATH
from keras_bert_impl.cli.remembered import read_options
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.progress import Progress

EXAMPLE = (
    "  keras-bert drift --model run --served last-week.csv\n"
    "  keras-bert drift --model run --reference dev.csv --served today.csv \\\n      --text review --check"
)
_MOST_CLASSES = 10  # lines of the table


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = add_tuned_model(parser)
    group.add_argument(
        "--served",
        type=PATH,
        required=True,
        metavar="FILE",
        help="served texts: a file as for `keras-bert predict`",
    )
    group.add_argument(
        "--reference",
        type=PATH,
        metavar="FILE",
        help="texts to compare with; default: the training data of the run",
    )
    add_inputs(parser.add_argument_group("columns of both tables"))
    group = parser.add_argument_group("output")
    group.add_argument(
        "--check", action="store_true", help="exit with status 2 if anything has shifted"
    )
    group.add_argument("--json", action="store_true", help="print the comparison as JSON")


def check(arguments: Namespace) -> None:
    """Finds the training data of the run, if there is no other reference."""
    arguments.id = None
    if arguments.reference is None and read_options(arguments.model).get("train") is None:
        raise InputError(
            f"--reference FILE is missing: {arguments.model} does not say which file it was "
            "trained on."
        )


def run(arguments: Namespace) -> None:
    """Prints a row for each quantity."""
    from keras_bert_impl.tasks.runs.drift import compare_samples, sample_of
    from keras_bert_impl.tasks.runs.run import load_tuned

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    reference, served = (
        sample_of(model, _texts(path, arguments, model) if path else _of_run(arguments, model))
        for path in (arguments.reference, arguments.served)
    )
    compared = compare_samples(reference, served)
    if arguments.json:
        print_json(
            {
                name: {"psi": one.psi, "p_value": one.p_value, "verdict": one.verdict}
                for name, one in compared.items()
            }
        )
    else:
        print_table(
            _rows(compared, reference, served),
            {"name": "", "reference": "reference", "served": "served"}
            | {"psi": "PSI", "p": "p", "verdict": ""},
        )
    shifted = [name for name, one in compared.items() if one.verdict != "same"]
    if shifted and arguments.check:
        raise InputError(f"{', '.join(shifted)} of {arguments.served}: shifted.")


def _of_run(arguments, model):
    """Returns the texts that a run was trained on, read as the run read them."""
    from keras_bert_impl.tasks.data.source import ExampleSource
    from keras_bert_impl.tasks.registry import task_of_model

    options = read_options(arguments.model)
    names = {field.name for field in dataclasses.fields(ExampleSource)} & set(options)
    source = ExampleSource(**{name: options[name] for name in names}, splits=("train",))
    return task_of_model(model).read(source, "train").texts


def _texts(path, arguments, model):
    rows, total = read_inputs(path, arguments, model)
    with Progress(f"reading {path}", total, "texts") as progress:
        for count, (text, _) in enumerate(rows, 1):
            yield text
            progress.update(count)


def _rows(compared, reference, served):
    """Returns the rows of the table: a quantity, and below it the shares of its classes."""
    rows = []
    for name, one in compared.items():
        p = f"{one.p_value:.3f}" if one.p_value >= 0.001 else "<0.001"
        row = {"psi": f"{one.psi:.3f}", "p": p, "verdict": one.verdict}
        if name in reference.numbers:
            samples = (reference.numbers[name], served.numbers[name])
            rows.append({"name": name} | _both(samples, _quantiles) | row)
            continue
        samples = (reference.classes[name], served.classes[name])
        rows.append({"name": name} | _both(samples, lambda names: f"{len(names):,}") | row)
        for each in sorted(set(samples[0]) | set(samples[1]))[:_MOST_CLASSES]:
            shares = _both(samples, functools.partial(_share, each))
            rows.append({"name": f"  {each}"} | shares | dict.fromkeys(row, ""))
    return rows


def _share(name, names):
    return f"{names.count(name) / len(names):.1%}"


def _both(samples, function):
    return dict(zip(("reference", "served"), map(function, samples)))


def _quantiles(values):
    """Returns the median and the 99th percentile."""
    median, high = np.quantile(values, [0.5, 0.99], method="higher")
    return f"{median:.4g} (99%: {high:.4g})"
