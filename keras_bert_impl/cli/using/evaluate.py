"""`keras-bert evaluate`: scores a fine-tuned model on labeled examples."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_tuned_model, print_json, print_scores, say
from keras_bert_impl.cli.examples import add_examples, check_examples, check_tables, read_more
from keras_bert_impl.cli.kinds import OUTPUT_DIRECTORY
from keras_bert_impl.cli.remembered import (
    check_unchanged,
    completed,
    read_options,
    read_scored,
    with_columns,
)

EXAMPLE = (
    "  keras-bert evaluate --model run\n"
    "  keras-bert evaluate --model run --dev test.csv --out scored\n"
    "  keras-bert evaluate --model run --task mrpc --data glue\n"
    "  keras-bert evaluate --model run --dev test.conllu --json"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = add_tuned_model(parser)
    add_examples(parser, is_training=False)
    group.add_argument(
        "--test",
        action="store_true",
        help="score on the test set of --data, which must have labels, instead of the dev set",
    )
    group.add_argument(
        "--out",
        type=OUTPUT_DIRECTORY,
        metavar="DIR",
        help="directory to write predictions and scores.json to",
    )
    group.add_argument("--json", action="store_true", help="print the scores as JSON")


check = check_examples


def check_files(arguments: Namespace) -> None:
    """Checks the columns of a table to score a run on."""
    options = read_options(arguments.model)
    if options and arguments.dev and not (arguments.task or options["task"]):
        check_tables(with_columns(arguments, options))


def run(arguments: Namespace) -> None:
    """Prints the scores; those of a run have the same form as in the run."""
    from keras_bert_impl.tasks.runs.evaluation import evaluate
    from keras_bert_impl.tasks.runs.run import load_tuned

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
