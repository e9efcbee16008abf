"""`keras-bert evaluate`, `report` and `look`: how good a model is, and why."""

import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import (
    FOLDER,
    MODEL,
    OUTPUT_DIRECTORY,
    OUTPUT_FILE,
    add_base,
    add_dtype,
    add_tuned_model,
    print_json,
    print_scores,
    say,
)
from keras_bert_impl.cli.examples import (
    add_examples,
    check_examples,
    check_tables,
    read_examples,
    read_more,
)
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.cli.remembered import (
    check_unchanged,
    completed,
    has_data,
    read_options,
    read_scored,
    with_columns,
)
from keras_bert_impl.io.errors import InputError


class Evaluate(Command):
    """`keras-bert evaluate`: scores a fine-tuned model on labeled examples."""

    example = (
        "  keras-bert evaluate --model run\n"
        "  keras-bert evaluate --model run --dev test.csv --out scored\n"
        "  keras-bert evaluate --model run --task mrpc --data glue\n"
        "  keras-bert evaluate --model run --dev test.conllu --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        add_examples(parser, is_training=False)
        group.add_argument(
            "--test",
            action="store_true",
            help="score the test set of --data, which must have labels, instead of the validation set",
        )
        group.add_argument(
            "--out",
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="directory to write predictions and scores.json to",
        )
        group.add_argument("--json", action="store_true", help="print the scores as JSON")

    def check(self, arguments: Namespace) -> None:
        check_examples(arguments)

    def check_files(self, arguments: Namespace) -> None:
        """Checks the columns of a table to score a run on."""
        options = read_options(arguments.model)
        if options and arguments.dev and not (arguments.task or options.get("task")):
            check_tables(with_columns(arguments, options))

    def run(self, arguments: Namespace) -> None:
        """Prints the scores, in the format of `scores.json` for a run."""
        from keras_bert_impl.runs.evaluation import evaluate
        from keras_bert_impl.runs.run import load_tuned

        arguments, is_same = completed(arguments, arguments.model)
        model = load_tuned(arguments.model, arguments.dtype, arguments.base)
        examples = read_scored(model, arguments, "test" if arguments.test else "dev")
        if is_same and not arguments.test:
            check_unchanged(arguments.model, examples)
            say(f"scores on {examples.source}, as in the run")
        more = {} if arguments.test else read_more(arguments)
        scores = evaluate(model, examples, arguments.out, more)
        if arguments.json:
            print_json(scores)
        else:
            print_scores(scores)


class Report(Command):
    """`keras-bert report`: writes the page of a run, or one that compares several."""

    example = (
        "  keras-bert report run\n"
        "  keras-bert report sweep\n"
        "  keras-bert report run --dev dev.csv --text review --label stars \\\n"
        "      --pictures figures\n"
        "  keras-bert report run-a run-b --dev dev.csv --text review \\\n"
        "      --label stars --out a-and-b.html"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("runs and output")
        group.add_argument(
            "run",
            nargs="+",
            type=FOLDER,
            metavar="RUN",
            help="run directory; several runs or a sweep to compare",
        )
        group.add_argument(
            "--out",
            type=OUTPUT_FILE,
            metavar="FILE",
            help="page to write; default: report.html in the run, or comparison.html",
        )
        group.add_argument(
            "--pictures",
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="directory for the pictures, as SVG and PNG files",
        )
        add_base(group)
        add_dtype(group)
        add_examples(parser, is_training=False, title="examples; default: the examples of the run")

    def check(self, arguments: Namespace) -> None:
        check_examples(arguments)

    def run(self, arguments: Namespace) -> None:
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
    """Returns (model or None, examples or None) of the arguments, else of the run."""
    from keras_bert_impl.runs.run import load_tuned

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


class Look(Command):
    """`keras-bert look`: writes a page about what a model does with a text."""

    example = (
        '  keras-bert look run "a joy from start to end"\n'
        '  keras-bert look bert-base-uncased "Paris is the capital of France." --open\n'
        '  keras-bert look run "Who came?" "Ann came with Bob."'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "model", type=MODEL, metavar="MODEL", help="run, model directory or published name"
        )
        parser.add_argument(
            "text", metavar="TEXT", help="text; for a pair or a question, the first of two"
        )
        parser.add_argument(
            "pair", nargs="?", metavar="PAIR", help="second text or context, if any"
        )
        parser.add_argument(
            "--out", type=OUTPUT_FILE, metavar="FILE", default="look.html", help="page to write"
        )
        parser.add_argument("--open", action="store_true", help="open the page in a browser")

    def run(self, arguments: Namespace) -> None:
        """Prints where the page is."""
        from keras_bert_impl.reports.look_page import look

        text = arguments.text if arguments.pair is None else (arguments.text, arguments.pair)
        path = look(_load(arguments.model), text, arguments.out)
        print(f"wrote {path}")
        if arguments.open:
            webbrowser.open(path.resolve().as_uri())


def _load(name):
    """Loads a task model, else a masked language model, else an encoder."""
    from keras_bert_impl.interop import open_model, read_encoder_config
    from keras_bert_impl.models.weights import MissingTensorError
    from keras_bert_impl.runs.run import load_tuned
    from keras_bert_impl.tasks import MaskedLM, TextEmbedder
    from keras_bert_impl.tasks.registry import NotFineTunedError, model_class_of

    try:
        model_class_of(name)
    except NotFineTunedError:
        pass
    else:
        return load_tuned(name)
    if read_encoder_config(open_model(name)).causal:
        return TextEmbedder.from_pretrained(name)
    try:
        return MaskedLM.from_pretrained(name)
    except MissingTensorError:  # no masked language modeling head
        return TextEmbedder.from_pretrained(name)
