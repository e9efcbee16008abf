"""`keras-bert evaluate`: scores a fine-tuned model on labeled examples."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_tuned_model, print_json, print_scores, say
from keras_bert_impl.cli.examples import add_examples, read_examples_of, read_more
from keras_bert_impl.cli.remembered import (
    check_unchanged,
    has_data,
    read_options,
    with_columns,
    with_data,
)

EXAMPLE = (
    "  keras-bert evaluate --model run\n"
    "  keras-bert evaluate --model run --dev test.csv --out scored\n"
    "  keras-bert evaluate --model run --task mrpc --data glue\n"
    "  keras-bert evaluate --model run --dev test.conllu --json"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_tuned_model(parser)
    add_examples(parser, is_training=False)
    parser.add_argument(
        "--test",
        action="store_true",
        help="score on the test set of --data, which must have labels, instead of the dev set",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="the directory to write predictions and scores.json to"
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


def run(arguments: Namespace) -> None:
    """Prints the scores; those of a run have the same form as in the run."""
    from keras_bert_impl.tasks.runs.evaluation import evaluate
    from keras_bert_impl.tasks.runs.run import load_tuned

    options = read_options(arguments.model)
    is_same = bool(options) and not has_data(arguments)
    if is_same:
        arguments = with_data(arguments, options, arguments.model)
    elif options:
        arguments = with_columns(arguments, options)
    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    examples = _read(model, arguments)
    if is_same and not arguments.test:
        check_unchanged(arguments.model, examples)
        say(f"scores on {examples.source}, as in the run")
    more = {} if arguments.test else read_more(arguments)
    scores = evaluate(model, examples, arguments.out, more)
    if arguments.json:
        print_json(scores)
    else:
        print_scores(scores)


def _read(model, arguments):
    """Reads the examples to score on; those that a run held out of its training file are split."""
    examples = read_examples_of(model, arguments, "test" if arguments.test else "dev")
    share = vars(arguments).get("dev_split")
    if not share:
        return examples
    from keras_bert_impl.tasks.data.splits import hold_out

    return hold_out(examples, share, arguments.seed)[1]
