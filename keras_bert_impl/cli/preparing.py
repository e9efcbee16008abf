"""`keras-bert check`, `vocab` and `prepare`: labeled texts, a tokenizer and records."""

import collections
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import (
    FILE,
    MODEL,
    OUTPUT_DIRECTORY,
    add_documents,
    positive_int,
    print_json,
    print_line,
    say,
    say_skipped,
)
from keras_bert_impl.cli.examples import (
    add_examples,
    check_examples,
    form_of_tables,
    read_split,
    reads_tables,
    take_columns,
)
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.data.tables.table_rows import ARROW, PARQUET
from keras_bert_impl.tasks.names import max_length_of, readers
from keras_bert_impl.utils.errors import InputError, listed
from keras_bert_impl.utils.io.files import replace_directory
from keras_bert_impl.utils.io.lines import is_utf8, suffix_of
from keras_bert_impl.utils.progress import Progress

_SIZE, _ADDED = 30522, 1000  # tokens


class Vocab(Command):
    example = (
        "  keras-bert vocab corpus.txt more/ --out tokenizer --size 8000\n"
        "  keras-bert vocab abstracts.txt --extend bert-base-uncased --out bert-medical"
    )
    tensorflow_alone = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_documents(parser)
        group = parser.add_argument_group("vocabulary")
        group.add_argument(
            "--out", required=True, type=OUTPUT_DIRECTORY, metavar="DIR", help="directory to write"
        )
        group.add_argument(
            "--size",
            type=positive_int,
            metavar="N",
            help=f"size of the vocabulary; default: {_SIZE}",
        )
        group.add_argument(
            "--cased", action="store_true", help="keep uppercase letters and accents"
        )
        group.add_argument(
            "--min-frequency",
            type=positive_int,
            metavar="N",
            help="minimum frequency of a pair of tokens to be merged (default: 2), or with "
            "--extend, of a word or pair to be added (default: 5)",
        )
        group = parser.add_argument_group("extend a vocabulary")
        group.add_argument(
            "--extend",
            type=MODEL,
            metavar="MODEL",
            help="model to extend with tokens for frequent words of the text; --out is the extended "
            "model, for continued pre-training",
        )
        group.add_argument(
            "--add",
            type=positive_int,
            metavar="N",
            help=f"maximum number of tokens that --extend adds; default: {_ADDED}",
        )

    def check(self, arguments: Namespace) -> None:
        names, way = (("size", "cased"), "with") if arguments.extend else (("add",), "without")
        for name in names:
            if getattr(arguments, name):
                raise InputError(f"--{name} is not supported {way} --extend.")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.pretraining import read_documents
        from keras_bert_impl.tokenizers import WordPieceTokenizer, learn_wordpiece_vocabulary
        from keras_bert_impl.tokenizers.learning import count_accents, describe_folding

        unreadable: list[InputError] = []
        source = arguments.text, arguments.format, arguments.text_field
        documents = read_documents(*source, unreadable)
        if arguments.extend:
            _extend(arguments, documents)
            say_skipped(unreadable)
            return
        characters: collections.Counter[str] = collections.Counter()
        # An invalid directory raises before the slow work.
        with replace_directory(arguments.out) as temporary:
            vocabulary = learn_wordpiece_vocabulary(
                count_accents(_read_texts(documents), characters),
                vocabulary_size=arguments.size or _SIZE,
                lowercase=not arguments.cased,
                min_frequency=arguments.min_frequency or 2,
            )
            WordPieceTokenizer(vocabulary, lowercase=not arguments.cased).save_pretrained(temporary)
        say_skipped(unreadable)
        say(f"wrote {len(vocabulary):,} tokens to {arguments.out}")
        if not arguments.cased and (folding := describe_folding(characters)):
            say(folding)


def _extend(arguments, documents):
    from keras_bert_impl.models.conversion.vocabulary_augmentation import augment_vocabulary

    tokens, tokens_per_word = augment_vocabulary(
        arguments.extend,
        arguments.out,
        _read_texts(documents),
        arguments.add or _ADDED,
        arguments.min_frequency or 5,
    )
    some = ", ".join(tokens[:10])
    say(f"added {len(tokens):,} tokens ({some}, ...); wrote the model to {arguments.out}")
    say("tokens per word of this text: {:.3f} before, {:.3f} after".format(*tokens_per_word))


def _read_texts(documents):
    with Progress("reading", unit="documents") as progress:
        for count, document in enumerate(documents, start=1):
            yield from document.paragraphs
            progress.update(count)


class Prepare(Command):
    kept = "Finished blocks are in {out}."
    example = "  keras-bert prepare corpus.txt --tokenizer vocabulary --out records"
    tensorflow_alone = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        from keras_bert_impl.pretraining.settings import RECORDS_OBJECTIVES

        add_documents(parser)
        group = parser.add_argument_group("output")
        group.add_argument(
            "--out",
            required=True,
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="directory of records to write, or gs://...",
        )
        group.add_argument("--json", action="store_true", help="print the manifest as JSON")
        group = parser.add_argument_group("records")
        add = group.add_argument
        add(
            "--tokenizer",
            required=True,
            type=MODEL,
            metavar="DIR",
            help="model directory or name, or output of `vocab`",
        )
        add("--length", type=positive_int, default=128, metavar="N", help="sequence length")
        add(
            "--objective",
            choices=RECORDS_OBJECTIVES,
            default="mlm_nsp",
            help="pairs for next-sentence prediction (mlm_nsp) or sentence order (mlm_sop), no "
            "pairs (mlm), or translations (tlm)",
        )
        add(
            "--held-out",
            type=float,
            default=0.0,
            metavar="X",
            help="fraction of the documents for evaluation",
        )
        add(
            "--passes",
            type=positive_int,
            default=1,
            metavar="N",
            help="passes over the text, each with new pairs",
        )
        add(
            "--random-next-share",
            type=float,
            default=0.5,
            metavar="P",
            help="fraction of random mlm_nsp pairs",
        )
        add(
            "--segmented",
            action="store_true",
            help="the words of Chinese text are separated by spaces",
        )
        add(
            "--languages",
            type=lambda text: text.split(","),
            default=[],
            metavar="NAMES",
            help="languages of the lines of a document, for tlm",
        )
        add("--no-packing", action="store_true", help="one example per record, without packing")
        add("--seed", type=int, default=0, metavar="N", help="seed of random choices")
        _add_processes(parser)

    def run(self, arguments: Namespace) -> None:
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
                random_next_share=arguments.random_next_share,
                pack=not arguments.no_packing,
                held_out=arguments.held_out,
                input_format=arguments.format,
                text_field=arguments.text_field,
                segmented=arguments.segmented,
                languages=arguments.languages,
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
                print_line(
                    f"{name}: {split['documents']:,} documents, {split['examples']:,} examples in "
                    f"{split['rows']:,} rows, {split['tokens']:,} tokens, {split['fill']:.1%} full"
                    + _format_true_pairs(split, manifest["settings"]["objective"])
                )


def _add_processes(parser):
    from keras_bert_impl.pretraining.settings import RUNNERS

    group = parser.add_argument_group("processes")
    group.add_argument(
        "--workers",
        type=positive_int,
        metavar="N",
        help="number of processes; default: the number of cores",
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


def _format_true_pairs(split, objective):
    if objective in ("mlm", "tlm"):
        return ""
    share = 1 - split["pairs_labelled_1"] / split["examples"]
    return f", {share:.0%} of the pairs {'true' if objective == 'mlm_nsp' else 'in order'}"


class Check(Command):
    example = (
        "  keras-bert check reviews.csv --text review --label stars\n"
        "  keras-bert check train.csv --dev dev.csv --text body --label tag --json\n"
        "  keras-bert check train.conll --task tagging --model bert-base-cased"
    )
    uses_tensorflow = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", type=FILE, nargs="+", metavar="FILE", help="files of labeled examples"
        )
        group = parser.add_argument_group("output")
        group.add_argument("--json", action="store_true", help="print the numbers as JSON")
        group.add_argument(
            "--model", type=MODEL, metavar="MODEL", help="model whose tokenizer counts the tokens"
        )
        group.add_argument(
            "--max-length",
            type=positive_int,
            metavar="N",
            help="maximum number of tokens in a text; default: 128 (384 for questions)",
        )
        add_examples(parser, is_training=False, title="columns and validation set")

    def check(self, arguments: Namespace) -> None:
        names = [name for name in ("data", "tfds") if getattr(arguments, name)]
        names += [] if arguments.task in readers() else ["task"]
        if names:
            options = ", ".join(f"--{name} {getattr(arguments, name)}" for name in names)
            raise InputError(f"`keras-bert check` reads only files: leave out {options}.")
        if arguments.max_length and not arguments.model:
            raise InputError("--max-length requires --model, the model with the tokenizer.")
        check_examples(arguments)

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.data.tables import checks

        files = arguments.file
        values = vars(arguments) | {"train": files, "skip_bad_rows": True}
        text_files = [file for file in files if suffix_of(file) not in (*PARQUET, *ARROW)]
        non_utf8 = [file for file in text_files if not is_utf8(file)]
        if non_utf8 and not values["encoding"]:
            values["encoding"] = "cp1252"
            say(f"{listed(non_utf8)}: the file is not UTF-8 and was read with --encoding cp1252.")
        source = Namespace(**values)
        take_columns(source)
        train = read_split(source, "train")
        dev = read_split(source, "dev") if arguments.dev else None
        form = {"encoding": values["encoding"] or "utf-8"} if text_files else {}
        if reads_tables(arguments.task):
            form |= form_of_tables(source, "train")
        report = checks.check_examples(train, dev, form, _measure_tokens(arguments, train))
        if arguments.json:
            print_json(report)
        else:
            print_line("\n".join(checks.lines_of(report)))


def _measure_tokens(arguments, examples):
    """Returns `token_numbers` of the examples, or None without a tokenizer."""
    if not arguments.model:
        return None
    from keras_bert_impl.checkpoints.hub import local_directory
    from keras_bert_impl.data.tables.checks import token_numbers
    from keras_bert_impl.data.tables.token_lengths import count_tokens

    run_model = Path(arguments.model) / "model"
    directory = run_model if run_model.is_dir() else local_directory(arguments.model)
    try:
        counts = count_tokens(directory, examples.sequences)
    except InputError as error:
        say(f"lengths are in words only: {error}")
        return None
    max_length, are_split = max_length_of(arguments.task)
    return token_numbers(counts, arguments.max_length or max_length, are_split)
