"""`keras-bert prepare`: turns text into records for pre-training."""

from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_documents, positive_int, print_json
from keras_bert_impl.cli.kinds import MODEL, OUTPUT_DIRECTORY

EXAMPLE = "  keras-bert prepare corpus.txt --tokenizer vocabulary --out records"
TENSORFLOW_ALONE = True


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES

    add_documents(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--out",
        required=True,
        type=OUTPUT_DIRECTORY,
        metavar="DIR",
        help="folder of records to write, or gs://...",
    )
    group.add_argument("--json", action="store_true", help="print the manifest as JSON")
    group = parser.add_argument_group("records")
    add = group.add_argument
    add(
        "--tokenizer",
        required=True,
        type=MODEL,
        metavar="DIR",
        help="model directory or name, or the --out of `keras-bert vocab`",
    )
    add("--length", type=positive_int, default=128, metavar="N", help="tokens of a row")
    add(
        "--objective",
        choices=RECORDS_OBJECTIVES,
        default="mlm_nsp",
        help="pairs for next sentence prediction (mlm_nsp) or sentence order (mlm_sop), or no pairs "
        "(mlm)",
    )
    add(
        "--held-out",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the documents to hold out for evaluation",
    )
    add(
        "--passes",
        type=positive_int,
        default=1,
        metavar="N",
        help="passes over the text, each with new pairs",
    )
    add("--no-packing", action="store_true", help="write one example per row")
    add("--seed", type=int, default=0, metavar="N", help="seed of random choices")
    _add_processes(parser)


def _add_processes(parser):
    from keras_bert_impl.pretraining.settings import RUNNERS

    group = parser.add_argument_group("processes")
    group.add_argument(
        "--workers",
        type=positive_int,
        metavar="N",
        help="number of processes; default: one per core",
    )
    group.add_argument(
        "--runner",
        choices=RUNNERS,
        metavar="NAME",
        help=f"Apache Beam runner to use instead of processes: {', '.join(RUNNERS)}",
    )
    group.add_argument(
        "--runner-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the Beam pipeline, such as direct_num_workers=4; may be repeated",
    )


def run(arguments: Namespace) -> None:
    """Reads the text and writes the records."""
    from keras_bert_impl.pretraining.corpus.build_worker import keep_freed_memory
    from keras_bert_impl.pretraining.corpus.preparation import prepare, shown_progress
    from keras_bert_impl.tokenizers import Tokenizer

    keep_freed_memory()
    with shown_progress() as progress:
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
            progress=progress,
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
