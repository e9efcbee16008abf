"""`keras-bert pretrain`: pre-trains a model on records."""

import dataclasses
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_run, check_run, prepared_strategy, print_json, say
from keras_bert_impl.cli.kinds import FOLDER, check_model
from keras_bert_impl.cli.settings import add_settings, resolve_settings
from keras_bert_impl.io.reading import read_json
from keras_bert_impl.pretraining.recipes import recipes
from keras_bert_impl.pretraining.settings import PretrainSettings

EXAMPLE = """  keras-bert pretrain records --out run --model bert_uncased_L-4_H-256_A-4
  keras-bert pretrain records --out run --recipe electra_small --batch-size 256"""

_MAIN = (
    "model", "total_steps", "batch_size", "learning_rate", "warmup_steps", "schedule", "objectives",
    "mask_unit", "mask_rate", "optimizer", "dtype", "seed",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = parser.add_argument_group("records")
    group.add_argument(
        "records",
        type=FOLDER,
        help="the --out of `keras-bert prepare`, or gs://bucket/records",
    )
    add_run(parser).add_argument("--json", action="store_true", help="print the scores as JSON")
    add_settings(parser, PretrainSettings, recipes(), _MAIN)


def check(arguments: Namespace) -> None:
    """Checks the combination of arguments, and the settings."""
    check_run(arguments)
    settings = resolve_settings(arguments, PretrainSettings, recipes())
    for name in ("model", "teacher", "generator"):
        check_model(name, getattr(settings, name))


def run(arguments: Namespace) -> None:
    """Pre-trains a model, and prints where it is."""
    from keras_bert_impl.pretraining.run import pretrain
    from keras_bert_impl.reports.finished import describe_run
    from keras_bert_impl.training.strategy import is_chief

    settings = resolve_settings(arguments, PretrainSettings, recipes())
    pretrain(
        arguments.records,
        arguments.out,
        strategy=prepared_strategy(arguments),
        resume=arguments.resume,
        **dataclasses.asdict(settings),
    )
    if not is_chief():
        return  # the chief writes and reports the result
    describe_run(arguments.out)
    say(f"wrote the model to {Path(arguments.out) / 'model'}")
    scores = Path(arguments.out) / "scores.json"
    if arguments.json and scores.exists():
        print_json(read_json(scores))
