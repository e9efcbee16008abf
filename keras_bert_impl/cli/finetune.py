"""`keras-bert finetune`: from labelled examples to a tuned model."""

import dataclasses
import json
import sys
from pathlib import Path

from keras_bert_impl.cli.common import add_run, add_settings, print_json, resolve_settings
from keras_bert_impl.errors import InputError
from keras_bert_impl.tasks.settings import FinetuneSettings

EXAMPLE = (
    "  keras-bert finetune --model DIR --task mrpc --data glue --out run epochs=4\n"
    "  keras-bert finetune --model DIR --train train.csv --dev dev.csv --text review "
    "--label stars --out run\n"
    "  keras-bert finetune --model DIR --task tagging --train train.conllu --dev dev.conllu "
    "--out run\n"
    "  keras-bert finetune --model DIR --task squad --train train-v2.0.json --dev dev-v2.0.json "
    "--out run\n"
    "  keras-bert finetune --model DIR --task choice --train train.csv --dev val.csv --out run\n"
    "  keras-bert finetune --model DIR --task similarity --data glue --out run loss=cosent"
)
_TASKS = ("tagging", "squad", "choice", "similarity")  # beside those that are read from --data
_MULTILINGUAL = ("xnli", "paws_x")


def add_arguments(parser):
    """The arguments of the command."""
    from keras_bert_impl.tasks.glue import TASKS

    parser.add_argument("--model", metavar="DIR", help="the model directory to start from")
    parser.add_argument(
        "--task",
        choices=[*(task for task in TASKS if task != "diagnostic"), *_MULTILINGUAL, *_TASKS],
        help="a GLUE task, xnli or paws_x, read from --data; or for --train and --dev: tagging, "
        "labels of words in columns or CoNLL-U; squad, questions with answers in a context; "
        "choice, prompts with endings of SWAG (.csv), CODAH (.tsv), SIQA or any number (.jsonl); "
        "similarity, pairs in a table (or STS-B in --data), to be embedded. Default: texts in a "
        "table",
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of GLUE, XNLI or PAWS-X")
    parser.add_argument("--language", default="en", help="of XNLI or PAWS-X; default: en")
    parser.add_argument("--tfds", metavar="NAME", help="a data set of TensorFlow Datasets, or the "
                        "directory of one; --train and --dev are then its splits")
    parser.add_argument("--train", metavar="FILE", help="what to train on; texts in a table are "
                        ".csv, .tsv or .jsonl")
    parser.add_argument("--dev", metavar="FILE", help="what to score on")
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text; of words for "
                        "tagging, from 0 (default: 0)")
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    parser.add_argument("--label", metavar="COLUMN", help="the column of the label; for tagging a "
                        "number (default: -1, the last), or upos, xpos, feats or deprel (default: "
                        "upos) of a .conllu file")
    parser.add_argument("--label-separator", metavar="TEXT", help="texts have any number of "
                        "labels, with this between their names")
    parser.add_argument("--id", metavar="COLUMN", help="a column whose values must all differ")
    parser.add_argument("--skip-bad-rows", action="store_true", help="leave out, count and list "
                        "what cannot be used")
    parser.add_argument(
        "--regression", action="store_true", help="labels are numbers to learn, not classes"
    )
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    add_settings(parser, FinetuneSettings)


def run(arguments):
    """Tunes, and says what the model scores and where it is."""
    settings = dataclasses.asdict(resolve_settings(arguments, FinetuneSettings))
    settings["model"] = arguments.model or settings["model"]
    if not settings["model"]:
        raise InputError("say where to start from: --model DIR.")
    train, dev, *more = _examples(arguments)
    from keras_bert_impl.tasks.run import finetune
    from keras_bert_impl.training.strategy import is_chief
    from keras_bert_impl.tuning.choice import ParameterReport

    finetune(
        train=train,
        dev=dev,
        output_directory=arguments.out,
        strategy=arguments.strategy,
        resume=arguments.resume,
        callbacks=[ParameterReport()] if is_chief() else [],
        # Standard output is for the result; Keras draws its progress there.
        verbose=0 if arguments.json else 1 if sys.stdout.isatty() else 2,
        more_dev=more[0] if more else None,
        **settings,
    )
    if not is_chief():
        return  # the chief writes and says what came out
    scores = json.loads((Path(arguments.out) / "scores.json").read_text(encoding="utf-8"))
    if arguments.json:
        print_json(scores)
    else:
        print(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
    print(f"wrote the model to {Path(arguments.out) / 'model'}", file=sys.stderr)


def _examples(arguments):
    """The train and dev examples that the arguments name, and those of MNLI's other dev sets."""
    if arguments.task == "similarity":
        from keras_bert_impl.tasks.similarity import SimilarityExamples

        return [SimilarityExamples.of(examples) for examples in _pairs(arguments)]
    if arguments.task in _TASKS:
        _need(arguments, "train", "dev")
        read = {"tagging": _read_tags, "squad": _read_questions, "choice": _read_choices}
        return [read[arguments.task](file, arguments) for file in (arguments.train, arguments.dev)]
    if arguments.task:
        return _read_task(arguments.task, arguments)
    return _read_tables(arguments, arguments.regression)


def _pairs(arguments):
    """Pairs of texts with numbers: STS-B's, or those of tables."""
    if arguments.data:
        return _read_task("stsb", arguments)
    if not arguments.pair:
        raise InputError("--pair is missing, the column of the second text; or give --data.")
    return _read_tables(arguments, numeric=True)


def _read_tables(arguments, numeric):
    _need(arguments, "train", "dev", "text", "label")
    skip = arguments.skip_bad_rows
    if arguments.tfds:
        from keras_bert_impl.tasks.tfds_examples import read_tfds

        columns = arguments.text, arguments.pair, arguments.label
        return [
            read_tfds(arguments.tfds, split, *columns, skip_bad_rows=skip)
            for split in (arguments.train, arguments.dev)
        ]
    from keras_bert_impl.tasks.tables import read_table

    return [
        read_table(
            file,
            arguments.text,
            arguments.pair,
            arguments.label,
            numeric=numeric,
            id=arguments.id,
            label_separator=arguments.label_separator,
            skip_bad_rows=skip,
        )
        for file in (arguments.train, arguments.dev)
    ]


def _read_task(task, arguments):
    from keras_bert_impl.tasks.glue import has_glue, read_glue
    from keras_bert_impl.tasks.multilingual import read_paws_x, read_xnli

    data, language, skip = arguments.data, arguments.language, arguments.skip_bad_rows
    if not data or arguments.train or arguments.dev:
        raise InputError("--task needs --data, its folder, in place of --train and --dev.")
    splits = "train", "dev"
    if task in _MULTILINGUAL:
        read = read_xnli if task == "xnli" else read_paws_x
        return [read(data, split, language, skip) for split in splits]
    found = [read_glue(task, data, split, skip) for split in splits]
    if task == "mnli":
        more = {"mismatched": ("mnli", "dev_mismatched"), "diagnostic": ("diagnostic", "dev")}
        found.append({
            name: read_glue(of_task, data, split, skip)
            for name, (of_task, split) in more.items()
            if has_glue(of_task, data, split)
        })
    return found


def _need(arguments, *names):
    for name in names:
        if not getattr(arguments, name):
            rest = "--train and --dev" if len(names) == 2 else "--train, --dev, --text and --label"
            raise InputError(f"--{name} is missing: give {rest}, or a GLUE task with --data.")


def _read_tags(file, arguments):
    from keras_bert_impl.tasks.columns import read_columns, read_conllu

    skip = arguments.skip_bad_rows
    if Path(file).suffix == ".conllu":
        return read_conllu(file, arguments.label or "upos", skip_bad_rows=skip)
    columns = {"--text": arguments.text or "0", "--label": arguments.label or "-1"}
    for option, text in columns.items():
        if not text.removeprefix("-").isdecimal():
            raise InputError(f"{option} {text!r} is no number of a column of {file}.")
    return read_columns(file, *map(int, columns.values()), skip_bad_rows=skip)


def _read_questions(file, arguments):
    from keras_bert_impl.tasks.squad import read_squad

    return read_squad(file, skip_bad_rows=arguments.skip_bad_rows)


def _read_choices(file, arguments):
    from keras_bert_impl.tasks.choice_files import read_choices

    return read_choices(file, skip_bad_rows=arguments.skip_bad_rows)
