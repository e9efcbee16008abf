"""`keras-bert prepare`: turns text into records for pre-training."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_documents, positive_int, print_json
from keras_bert_impl.io.progress import Progress

EXAMPLE = "  keras-bert prepare corpus.txt --tokenizer vocabulary/ --out records --held-out 0.01"
TENSORFLOW_ALONE = True


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, RUNNERS

    add_documents(parser)
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="the folder of records to write, or gs://..."
    )
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="DIR",
        help="a model directory, or the --out of `keras-bert vocab`",
    )
    parser.add_argument(
        "--length", type=positive_int, default=128, help="number of tokens in a row; default: 128"
    )
    parser.add_argument(
        "--objective",
        choices=RECORDS_OBJECTIVES,
        default="mlm_nsp",
        help="pairs for next sentence prediction (mlm_nsp) or sentence order (mlm_sop), or no pairs "
        "(mlm); default: mlm_nsp",
    )
    parser.add_argument(
        "--held-out",
        type=float,
        default=0.0,
        help="fraction of the documents to hold out for evaluation; default: 0",
    )
    parser.add_argument(
        "--passes",
        type=positive_int,
        default=1,
        help="number of passes over the text, each with new pairs; default: 1",
    )
    parser.add_argument("--no-packing", action="store_true", help="write one example per row")
    parser.add_argument(
        "--workers", type=positive_int, help="number of processes; default: one per core"
    )
    parser.add_argument(
        "--runner", choices=RUNNERS, help="the Apache Beam runner to use instead of processes"
    )
    parser.add_argument(
        "--runner-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the Beam pipeline, such as direct_num_workers=4; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random choices; default: 0")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")


def run(arguments: Namespace) -> None:
    """Reads the text and writes the records."""
    from keras_bert_impl.pretraining.corpus.build_worker import keep_freed_memory
    from keras_bert_impl.pretraining.corpus.preparation import prepare
    from keras_bert_impl.tokenizers import Tokenizer

    keep_freed_memory()
    with Progress("preparing", unit="documents") as shown:
        manifest = prepare(
            arguments.text,
            arguments.out,
            Tokenizer.from_pretrained(arguments.tokenizer),
            length=arguments.length,
            objective=arguments.objective,
            passes=arguments.passes,
            pack=not arguments.no_packing,
            held_out=arguments.held_out,
            input_format=arguments.format,
            text_field=arguments.text_field,
            num_workers=arguments.workers,
            seed=arguments.seed,
            progress=lambda counts: shown.update(counts.documents, f"{counts.tokens:,} tokens"),
            runner=arguments.runner,
            runner_options=arguments.runner_option,
        )
    if arguments.json:
        print_json(manifest)
        return
    for name, split in manifest["splits"].items():
        if split["rows"]:
            print(
                f"{name}: {split['documents']:,} documents, {split['examples']:,} examples in "
                f"{split['rows']:,} rows, {split['tokens']:,} tokens, {split['fill']:.1%} full"
                + _share_of_true_pairs(split, manifest["settings"]["objective"])
            )


def _share_of_true_pairs(split, objective):
    if objective == "mlm":
        return ""
    share = 1 - split["pairs_labelled_1"] / split["examples"]
    return f", {share:.0%} of the pairs {'true' if objective == 'mlm_nsp' else 'in order'}"
