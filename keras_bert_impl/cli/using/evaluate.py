"""`keras-bert evaluate`: scores a fine-tuned model on labeled examples."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_tuned_model, print_json, print_scores
from keras_bert_impl.cli.examples import add_examples, read_examples_of, read_more

EXAMPLE = (
    "  keras-bert evaluate --model run --task mrpc --data glue\n"
    "  keras-bert evaluate --model run --dev dev.csv --text review --label stars --out scored\n"
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

    model = load_tuned(arguments.model, arguments.dtype, arguments.base)
    examples = read_examples_of(model, arguments, "test" if arguments.test else "dev")
    more = {} if arguments.test else read_more(arguments)
    scores = evaluate(model, examples, arguments.out, more)
    if arguments.json:
        print_json(scores)
    else:
        print_scores(scores)
