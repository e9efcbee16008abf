"""`keras-bert prepare`: turns text into records for pre-training."""

import sys

from keras_bert_impl.cli.common import positive_int, print_json

EXAMPLE = "  keras-bert prepare corpus.txt --tokenizer vocabulary/ --out records --held-out 0.01"
TENSORFLOW_ALONE = True


def add_arguments(parser):
    """Adds the arguments of the command."""
    from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES, RUNNERS, TEXT_FORMATS

    parser.add_argument("text", nargs="+", help="files, folders, gs:// or tfds:// names")
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="the records to write; gs://... too"
    )
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="DIR",
        help="a model directory, or what `keras-bert vocab` wrote",
    )
    parser.add_argument("--format", choices=TEXT_FORMATS, default="auto", help="of the text")
    parser.add_argument("--text-field", default="text", help="field of JSON lines; default: text")
    parser.add_argument(
        "--length", type=positive_int, default=128, help="tokens of a row; default: 128"
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
        help="part of the documents to evaluate on; default: 0",
    )
    parser.add_argument(
        "--passes", type=positive_int, default=1, help="how often to pair anew; default: 1"
    )
    parser.add_argument("--no-packing", action="store_true", help="one example a row")
    parser.add_argument("--workers", type=positive_int, help="processes; default: one a core")
    parser.add_argument(
        "--runner", choices=RUNNERS, help="of Apache Beam, in place of processes of this machine"
    )
    parser.add_argument(
        "--runner-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of Beam's pipeline, such as direct_num_workers=4; give it again for more",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the manifest")


def run(arguments):
    """Reads the text and writes the records."""
    from keras_bert_impl.pretraining.corpus.build_worker import keep_freed_memory
    from keras_bert_impl.pretraining.corpus.preparation import prepare
    from keras_bert_impl.tokenizers import Tokenizer

    keep_freed_memory()
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
        progress=_report,
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
                + _of_pairs(split, manifest["settings"]["objective"])
            )


def _of_pairs(split, objective):
    """Describes the share of the pairs of a split that are true pairs of an objective."""
    if objective == "mlm":
        return ""
    share = 1 - split["pairs_labelled_1"] / split["examples"]
    return f", {share:.0%} of the pairs {'true' if objective == 'mlm_nsp' else 'in order'}"


def _report(progress):
    print(progress, file=sys.stderr)
