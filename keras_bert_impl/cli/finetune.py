"""`keras-bert finetune`: from labelled texts to a tuned classifier."""

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
    "--label stars --out run"
)


def add_arguments(parser):
    """The arguments of the command."""
    from keras_bert_impl.tasks.glue import TASKS

    parser.add_argument("--model", metavar="DIR", help="the model directory to start from")
    parser.add_argument("--task", choices=TASKS, help="a GLUE task, read from --data")
    parser.add_argument("--data", metavar="DIR", help="the GLUE folder")
    parser.add_argument("--train", metavar="FILE", help="texts to train on: .csv, .tsv or .jsonl")
    parser.add_argument("--dev", metavar="FILE", help="texts to score on")
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text")
    parser.add_argument("--pair", metavar="COLUMN", help="the column of the second segment, if any")
    parser.add_argument("--label", metavar="COLUMN", help="the column of the label")
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
    train, dev = _examples(arguments)
    from keras_bert_impl.tasks.run import finetune
    from keras_bert_impl.training.strategy import is_chief

    finetune(
        train=train,
        dev=dev,
        output_directory=arguments.out,
        strategy=arguments.strategy,
        resume=arguments.resume,
        # Standard output is for the result; Keras draws its progress there.
        verbose=0 if arguments.json else 1 if sys.stdout.isatty() else 2,
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
    """The train and dev `Examples` that the arguments name."""
    if arguments.task:
        from keras_bert_impl.tasks.glue import read_glue

        if not arguments.data or arguments.train or arguments.dev:
            raise InputError("--task needs --data, the GLUE folder, in place of --train and --dev.")
        return [read_glue(arguments.task, arguments.data, split) for split in ("train", "dev")]
    from keras_bert_impl.tasks.tables import read_table

    for name in ("train", "dev", "text", "label"):
        if not getattr(arguments, name):
            raise InputError(
                f"--{name} is missing: give --train, --dev, --text and --label, or --task."
            )
    return [
        read_table(
            file,
            arguments.text,
            arguments.pair,
            arguments.label,
            numeric=arguments.regression,
        )
        for file in (arguments.train, arguments.dev)
    ]
