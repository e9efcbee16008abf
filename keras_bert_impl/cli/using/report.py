"""`keras-bert report`: writes the page of a run, or one that compares several."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_base, add_dtype, say
from keras_bert_impl.cli.examples import add_examples, read_examples, read_examples_of
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert report run\n"
    "  keras-bert report run --dev dev.csv --text review --label stars --pictures figures\n"
    "  keras-bert report run-a run-b --dev dev.csv --text review --label stars --out a-and-b.html"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", nargs="+", help="one run directory, or several to compare")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="the page to write; default: report.html in the run, or comparison.html",
    )
    parser.add_argument(
        "--pictures", metavar="DIR", help="a folder for each picture as an SVG and a PNG file"
    )
    group = parser.add_argument_group(
        "examples", "What the model was scored on: adds classes, calibration and errors."
    )
    add_examples(group, is_training=False)
    add_base(parser)
    add_dtype(parser)


def run(arguments: Namespace) -> None:
    """Prints where the page is."""
    from keras_bert_impl.reports import write_comparison, write_report
    from keras_bert_impl.reports.run_files import read_run

    for directory in arguments.run:
        read_run(directory)
    has_examples = arguments.dev or arguments.data or arguments.tfds
    if len(arguments.run) > 1:
        examples = read_examples(arguments, "dev") if has_examples else None
        out = arguments.out or "comparison.html"
        path = write_comparison(arguments.run, out, examples, arguments.pictures)
    else:
        path = write_report(
            arguments.run[0], *_model_and_examples(arguments, has_examples), arguments.out,
            arguments.pictures,
        )  # fmt: skip
        if not has_examples:
            say("for classes, calibration and errors, add --dev FILE --text COLUMN --label COLUMN")
    print(f"wrote {path}")


def _model_and_examples(arguments, has_examples):
    """Returns (model or None, examples or None)."""
    from keras_bert_impl.tasks.runs.run import load_tuned

    if not has_examples:
        return None, None
    directory = arguments.run[0]
    if not (Path(directory) / "model").is_dir():
        raise InputError(
            f"{directory} has no model yet; leave out the examples, or finish the run."
        )
    model = load_tuned(directory, arguments.dtype, arguments.base)
    return model, read_examples_of(model, arguments, "dev")
