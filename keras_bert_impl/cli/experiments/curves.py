"""`keras-bert learning-curve`."""

import argparse
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import (
    MODEL,
    add_run,
    add_seeds,
    check_model,
    check_run,
    positive_int,
    prepared_strategy,
    print_json,
    print_table,
    say,
    whole_numbers,
    with_bounds,
)
from keras_bert_impl.cli.examples import (
    GLUE,
    add_examples,
    check_examples,
    check_tables,
    needed_files,
    read_files,
    read_train_and_dev,
)
from keras_bert_impl.cli.parser import Command, Rare
from keras_bert_impl.cli.settings import add_settings, given_settings
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.runs.settings import FinetuneSettings, with_settings_of
from keras_bert_impl.tasks.names import registered_tasks
from keras_bert_impl.tuning.settings import TuningSettings

_MAIN = ("epochs", "max_length")
_OF_RUNS = {"tuning": "tune", "seed": "seeds"}  # setting -> option with values for the runs


class LearningCurve(Command):
    """`keras-bert learning-curve`: fine-tunes on training sets of several sizes."""

    kept = "The finished runs are in {out}."

    words = ("model", "train")
    example = (
        "  keras-bert learning-curve --model DIR --train train.csv --dev dev.csv \\\n"
        "      --text body --label tag --sizes 8,32 --tune full:1e-4,lora --out curve"
    )

    @property
    def settings_class(self) -> type:
        return with_settings_of(FinetuneSettings, *registered_tasks())

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_run(parser, "model and output")
        group.add_argument(
            "--model", required=True, type=MODEL, metavar="MODEL", help="model to fine-tune"
        )
        group.add_argument("--json", action="store_true", help="print the curves as JSON")
        group = parser.add_argument_group("curves")
        group.add_argument(
            "--sizes",
            type=whole_numbers,
            default="8,32,128",
            metavar="N,N",
            help="training examples per class",
        )
        group.add_argument(
            "--tune",
            type=_rates,
            default="full,lora,head",
            metavar="NAME:RATE,NAME",
            help="tuning methods, with learning rates that replace the defaults",
        )
        add_seeds(group)
        group.add_argument(
            "--min-steps",
            type=positive_int,
            default=200,
            metavar="N",
            help="minimum number of steps per run; small training sets are repeated",
        )
        add_examples(parser, is_training=True)
        add_settings(parser, self.settings_class, main=_MAIN)
        group = parser.add_argument_group(Rare("checkpoints"))
        group.add_argument(
            "--keep-checkpoints", action="store_true", help="keep the checkpoints of finished runs"
        )

    def needed(self, arguments: Namespace) -> list[str]:
        return needed_files(arguments)

    def check(self, arguments: Namespace) -> None:
        check_run(arguments)
        if arguments.task == GLUE:
            raise InputError("--task glue is not supported. Choose one GLUE task, such as mrpc.")
        check_examples(arguments)
        settings = given_settings(arguments, self.settings_class)
        for name, option in _OF_RUNS.items():
            if name in settings:
                raise InputError(f"leave out {name}: --{option} sets it for each run.")
        for way in arguments.tune:
            self.settings_class(**settings | {"tuning": way})
        check_model("teacher", settings.get("teacher"))

    def check_files(self, arguments: Namespace) -> None:
        check_tables(arguments)
        read_files(arguments)

    def run(self, arguments: Namespace) -> None:
        train, dev = read_train_and_dev(arguments, FinetuneSettings.seed)
        from keras_bert_impl.experiments.curves import learning_curve

        found = learning_curve(
            train=train,
            dev=dev,
            output_directory=arguments.out,
            sizes=arguments.sizes,
            tuning=arguments.tune,
            seeds=arguments.seeds,
            min_steps=arguments.min_steps,
            resume=arguments.resume,
            say=say,
            strategy=prepared_strategy(arguments),
            keep_checkpoints=arguments.keep_checkpoints,
            **given_settings(arguments, self.settings_class) | {"model": arguments.model},
        )
        if arguments.json:
            print_json(found)
        else:
            print_table(*_table(found["curves"]))
        say(f"wrote the curves to {Path(arguments.out) / 'report.html'}")


def _rates(text):
    """argparse type: tuning methods, each with an optional learning rate."""
    found = {}
    for part in text.split(","):
        name, _, rate = part.partition(":")
        try:
            found[name] = float(rate) if rate else None
            TuningSettings(tuning=name, learning_rate=found[name])
        except (ValueError, InputError) as error:
            raise argparse.ArgumentTypeError(f"{part}: {error}") from error
    return found


def _table(curves):
    rows: dict[int, dict] = {}
    for name, points in curves.items():
        for point in points:
            row = {
                "size": point["size"],
                "examples": point["examples"],
                **dict.fromkeys(curves, "-"),
            }
            rows.setdefault(point["size"], row)[name] = with_bounds(point)
    return [*rows.values()], {name: name for name in ("size", "examples", *curves)}
