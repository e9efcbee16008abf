"""`keras-bert drift`: compares served texts with those that a model was trained on."""

import functools
from argparse import ArgumentParser, Namespace

import numpy as np

from keras_bert_impl.cli.common import add_delimiter, add_tuned_model, print_json, print_table
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert drift --model run --reference train.csv --served last-week.csv --text review\n"
    "  keras-bert drift --model run --reference train.txt --served today.txt --check"
)
_MOST_CLASSES = 10  # lines of the table


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_tuned_model(parser)
    for name, what in (("--reference", "texts of the training set"), ("--served", "served texts")):
        parser.add_argument(
            name, required=True, metavar="FILE", help=f"{what}: a file as for `keras-bert predict`"
        )
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text, in both files")
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    add_delimiter(parser)
    parser.add_argument(
        "--check", action="store_true", help="exit with status 2 if anything has shifted"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(arguments: Namespace) -> None:
    """Prints a row for each quantity.

    Raises:
        InputError: something has shifted, and `--check` was given.
    """
    from keras_bert_impl.tasks.runs.drift import compare_samples, sample_of
    from keras_bert_impl.tasks.runs.run import load_tuned

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    reference, served = (
        sample_of(model, _texts(path, arguments, model))
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


def _texts(path, arguments, model):
    raise NotImplementedError


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
    median, high = np.quantile(values, [0.5, 0.99])
    return f"{median:.4g} (99%: {high:.4g})"
