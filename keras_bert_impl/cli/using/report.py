"""`keras-bert report`: writes the page of a run, or one that compares several."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_base, add_dtype, say
from keras_bert_impl.cli.examples import add_examples, check_examples, read_examples
from keras_bert_impl.cli.kinds import FOLDER, OUTPUT_DIRECTORY, OUTPUT_FILE
from keras_bert_impl.cli.remembered import check_unchanged, completed, has_data, read_scored
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert report run\n"
    "  keras-bert report sweep\n"
    "  keras-bert report run --dev dev.csv --text review --label stars \\\n      --pictures figures\n"
    "  keras-bert report run-a run-b --dev dev.csv --text review \\\n      --label stars --out a-and-b.html"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = parser.add_argument_group("runs and output")
    group.add_argument(
        "run",
        nargs="+",
        type=FOLDER,
        metavar="RUN",
        help="run directory; several, or a set, to compare",
    )
    group.add_argument(
        "--out",
        type=OUTPUT_FILE,
        metavar="FILE",
        help="page to write; default: report.html in the run, comparison.html in the set or here",
    )
    group.add_argument(
        "--pictures",
        type=OUTPUT_DIRECTORY,
        metavar="DIR",
        help="folder for each picture as an SVG and a PNG file",
    )
    add_base(group)
    add_dtype(group)
    add_examples(parser, is_training=False, title="examples; default: those of the run")


check = check_examples


def run(arguments: Namespace) -> None:
    """Prints where the page is."""
    from keras_bert_impl.reports import write_comparison, write_report
    from keras_bert_impl.reports.run_files import runs_of

    run, *others = arguments.run
    is_set = len(runs_of(run)) > 1
    if others or is_set:
        for name in ("dtype", "base"):
            if getattr(arguments, name):
                raise InputError(f"--{name} is for the page of one run, not of several.")
        examples = read_examples(arguments, "dev") if has_data(arguments) else None
        out = arguments.out or Path("" if others else run) / "comparison.html"
        path = write_comparison(arguments.run, out, examples, arguments.pictures)
    else:
        known = _model_and_examples(run, arguments)
        path = write_report(run, *known, arguments.out, arguments.pictures)
    print(f"wrote {path}")


def _model_and_examples(run, arguments):
    """Returns (model or None, examples or None): those of the arguments, else of the run."""
    from keras_bert_impl.tasks.runs.run import load_tuned

    is_named = has_data(arguments)
    try:
        arguments, is_same = completed(arguments, run)
        if not (is_named or is_same):
            say("for classes, calibration and errors, add --dev FILE --text COLUMN --label COLUMN")
            return None, None
        if not (Path(run) / "model").is_dir():
            raise InputError(f"{run} has no model yet; finish the run.")
        model = load_tuned(run, arguments.dtype, arguments.base)
        examples = read_scored(model, arguments, "dev")
        if is_same:
            check_unchanged(run, examples)
    except InputError as error:
        if is_named:
            raise
        say(f"without classes, calibration and errors: {error}")
        return None, None
    return model, examples
