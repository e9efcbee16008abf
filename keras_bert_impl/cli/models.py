"""`keras-bert models`, `convert`, `merge`, `student` and `calibrate`."""

import argparse
import difflib
import math
import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.published import MODELS
from keras_bert_impl.cli.common import (
    MODEL,
    OUTPUT_DIRECTORY,
    add_base,
    add_documents,
    add_tuned_model,
    positive_int,
    print_json,
    print_line,
    print_table,
    say,
)
from keras_bert_impl.cli.examples import add_examples, check_examples
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.cli.remembered import (
    check_scored_table,
    check_unchanged,
    completed,
    has_data,
    read_options,
    read_scored,
    with_data,
)
from keras_bert_impl.utils.errors import InputError

_COLUMNS = ("name", "parameters", "layers", "hidden", "tokenizer", "lowercase")
_WIDE = (
    "name", "parameters", "architecture", "layers", "hidden", "heads", "vocabulary",
    "tokenizer", "lowercase", "hub", "license", "paper",
)  # fmt: skip


class Models(Command):
    example = "  keras-bert models uncased bert\n  keras-bert models chinese --json"
    uses_tensorflow = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "filter",
            nargs="*",
            metavar="WORD",
            help="words that a listed model must contain, such as uncased or electra",
        )
        parser.add_argument("--wide", action="store_true", help="show every column")
        parser.add_argument("--json", action="store_true", help="print all columns as JSON")

    def run(self, arguments: Namespace) -> None:
        rows = [row for row in _describe_models() if _has_words(row, arguments.filter)]
        if not rows:
            words = " ".join(arguments.filter)
            near = difflib.get_close_matches("-".join(arguments.filter), MODELS, n=3, cutoff=0.4)
            hint = f"; the nearest names are {', '.join(near)}." if near else "."
            say(f"keras-bert: no published model matches {words!r}{hint}")
            sys.exit(1)
        if arguments.json:
            print_json(rows)
            return
        for row in rows:
            row["lowercase"] = "yes" if row["lowercase"] else "no"
        print_table(rows, {key: key for key in (_WIDE if arguments.wide else _COLUMNS)})


def _describe_models():
    for name, model in MODELS.items():
        config = EncoderConfig.named(name)
        yield {
            "name": name,
            "parameters": config.num_parameters(),
            "architecture": config.architecture,
            "layers": config.num_layers,
            "hidden": config.hidden_dim,
            "heads": config.num_heads,
            "vocabulary": config.vocabulary_size,
            "tokenizer": model.tokenizer,
            "lowercase": model.lowercase,
            "hub": model.hub,
            "license": model.license,
            "paper": model.paper,
        }


def _has_words(row, words):
    """Returns whether every search word is the beginning of a word in the row."""
    text = " ".join(row[key] for key in ("name", "architecture", "hub", "tokenizer")).lower()
    text += " uncased" if row["lowercase"] else " cased"

    return all(re.search(rf"(?<![a-z0-9]){re.escape(word.lower())}", text) for word in words)


FORMS = ("huggingface", "google", "keras_hub")


class TokenizerReport(Command):
    words = ("model", "data")
    example = "  keras-bert tokenizer-report bert-base-uncased roberta-base --data corpus.txt"
    tensorflow_alone = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "model", nargs="+", type=MODEL, metavar="MODEL", help="models or tokenizers to compare"
        )
        add_documents(parser, "--data", required=True, metavar="PATH")
        group = parser.add_argument_group("output")
        group.add_argument(
            "--words", type=positive_int, default=10, metavar="N", help="number of words to list"
        )
        group.add_argument("--json", action="store_true", help="print the reports as JSON")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.pretraining import read_documents
        from keras_bert_impl.tokenizers import Tokenizer
        from keras_bert_impl.tokenizers.report import tokenizer_report

        reports = {}
        for name in arguments.model:
            documents = read_documents(arguments.data, arguments.format, arguments.text_field)
            texts = ("\n".join(document.paragraphs) for document in documents)
            tokenizer = Tokenizer.from_pretrained(name)
            reports[name] = tokenizer_report(tokenizer, texts, arguments.words)
        if arguments.json:
            print_json(reports)
            return
        rows = [
            {
                "model": name,
                "vocabulary": report["vocabulary_size"],
                "tokens per word": round(report["tokens_per_word"], 3),
                "split words": f"{report['split_words']:.1%}",
                "unknown words": f"{report['unknown_words']:.2%}",
                "characters per token": round(report["characters_per_token"], 2),
            }
            for name, report in reports.items()
        ]
        print_table(rows, {name: name for name in rows[0]})
        for name, report in reports.items():
            for key, title in (("most_split", "splits most"), ("most_unknown", "lacks")):
                if report[key]:
                    print_line(f"{name} {title}: {', '.join(map(_format_word, report[key]))}")


def _format_word(entry):
    return f"{entry['word']} ({' '.join(entry['tokens'])}, {entry['count']:,}×)"


class Convert(Command):
    words = ("source",)
    example = (
        "  keras-bert convert --from uncased_L-12_H-768_A-12 --to bert-base-uncased\n"
        "  keras-bert convert --from bert-base-uncased --to checkpoint --form google"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("from and to")
        group.add_argument(
            "--from",
            dest="source",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="model directory, Google checkpoint, SavedModel from TF Hub, KerasHub preset, "
            "owner/name on the hub, kaggle://owner/model/framework/variation, or a name that "
            "`keras-bert models` lists",
        )
        group.add_argument(
            "--to", required=True, type=OUTPUT_DIRECTORY, metavar="DIR", help="directory to write"
        )
        group.add_argument(
            "--form",
            choices=FORMS,
            default="huggingface",
            metavar="NAME",
            help="format to write: huggingface (config.json, model.safetensors), google "
            "(bert_model.ckpt) or keras_hub (a preset, with the head if KerasHub has the same "
            "head)",
        )
        group = parser.add_argument_group("exceptions")
        group.add_argument(
            "--activation",
            metavar="NAME",
            help="activation to write if the format does not support the model's activation, "
            "such as gelu_tanh for BERT in --form keras_hub; outputs then differ slightly",
        )
        group.add_argument(
            "--generator",
            action="store_true",
            help="convert the generator of a Google ELECTRA checkpoint instead of the "
            "discriminator",
        )

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.models.conversion.formats import convert

        shapes = convert(
            arguments.source,
            arguments.to,
            arguments.form,
            arguments.activation,
            arguments.generator,
        )
        parameters = sum(map(math.prod, shapes.values()))
        say(f"wrote {len(shapes)} tensors with {parameters:,} numbers to {arguments.to}")


class Merge(Command):
    words = ("model",)
    example = "  keras-bert merge --model run --out merged"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--model",
            required=True,
            type=MODEL,
            metavar="DIR",
            help="run directory, or a directory written by save_tuned or peft",
        )
        parser.add_argument(
            "--out", required=True, type=OUTPUT_DIRECTORY, metavar="DIR", help="directory to write"
        )
        add_base(parser)

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.checkpoints.hub import local_directory
        from keras_bert_impl.checkpoints.interop.opening import base_of, is_tuned
        from keras_bert_impl.runs.run import load_tuned

        tuned = local_directory(arguments.model)
        if is_tuned(tuned):
            base, out = Path(arguments.base or base_of(tuned)), Path(arguments.out)
            if base.is_dir() and out.is_dir() and out.samefile(base):
                raise InputError(
                    f"{out} contains the base model of {tuned}; choose a different directory."
                )
        model = load_tuned(arguments.model, "float32", arguments.base)
        model.save_pretrained(arguments.out)
        say(f"wrote the model to {arguments.out}")


class Student(Command):
    words = ("teacher",)
    example = (
        "  keras-bert student --teacher DIR --layers 6 --out student\n"
        "  keras-bert student --teacher DIR --layers 0,2,4 --out student"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--teacher",
            required=True,
            type=MODEL,
            metavar="MODEL",
            help="teacher model; accepts the same values as `keras-bert convert --from`",
        )
        parser.add_argument(
            "--layers",
            required=True,
            type=_parse_layers,
            metavar="N|A,B",
            help="number of layers, evenly spaced from the first to the last; or 0-based layer "
            "indices, such as 0,2,4",
        )
        parser.add_argument(
            "--out",
            required=True,
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="model directory to write",
        )

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.models.conversion.formats import student_of

        layers = student_of(arguments.teacher, arguments.out, arguments.layers)
        say(f"wrote layers {', '.join(map(str, layers))} to {arguments.out}")


def _parse_layers(text):
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a list such as 0,2,4")
    return int(text) if len(numbers) == 1 else [int(number) for number in numbers]


class Calibrate(Command):
    words = ("model", "dev")
    example = (
        "  keras-bert calibrate --model run\n"
        "  keras-bert calibrate --model run --dev held-out.csv --threshold f1\n"
        "  keras-bert calibrate --model run --threshold recall=0.9 --class spam\n"
        "  keras-bert calibrate --model run --threshold cost=1,10 --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        add_examples(parser, is_training=False, title="examples; default: the examples of the run")
        group.add_argument(
            "--threshold",
            metavar="RULE",
            help="rule for the decision threshold: f1, f2, recall=0.9, precision=0.9 or "
            "cost=FP,FN (costs of a false positive and a false negative); default: no threshold",
        )
        group.add_argument(
            "--class",
            dest="class_name",
            metavar="NAME",
            help="class to which the threshold applies; default: the second of two classes, or "
            "each label of a multi-label model",
        )
        group.add_argument("--json", action="store_true", help="print the result as JSON")

    def check(self, arguments: Namespace) -> None:
        from keras_bert_impl.data.scores.calibration import rule_of

        check_examples(arguments)
        if arguments.threshold:
            rule_of(arguments.threshold)
        elif arguments.class_name:
            raise InputError("--class requires --threshold RULE.")

    def check_files(self, arguments: Namespace) -> None:
        check_scored_table(arguments)

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.data.scores.calibration import Goal
        from keras_bert_impl.runs.calibrating import calibrate
        from keras_bert_impl.runs.run import load_tuned

        directory = arguments.model
        model = load_tuned(directory, arguments.dtype, arguments.base)
        examples = run_examples = _read_run_examples(model, arguments)
        if has_data(arguments):
            examples = read_scored(model, completed(arguments, directory)[0], "dev")
        if examples is None:
            raise InputError("pass the examples to calibrate on with --dev FILE.")
        goal = Goal(arguments.threshold, arguments.class_name)
        calibration = calibrate(model, examples, directory, goal, arguments.base, run_examples)
        if run_examples is not None:
            say(f"scored again; `keras-bert report {directory}` updates the page")
        if arguments.json:
            print_json(calibration.as_dict())
        else:
            print_line("\n".join(calibration.lines()))
        say(f"saved in {directory}; chosen and scored on the same examples, {examples.source}")


def _read_run_examples(model, arguments):
    """Returns the validation set of the run, or None if the scores of the run are not updated."""
    run = arguments.model
    options = read_options(run)
    if not options:
        return None
    try:
        without = Namespace(**vars(arguments) | dict.fromkeys(options.keys() & vars(arguments)))
        examples = read_scored(model, with_data(without, options, run), "dev")
        check_unchanged(run, examples)
    except InputError as error:
        if not has_data(arguments):
            raise
        say(f"the scores and the report of {run} were not updated: {error}")
        return None
    return examples
