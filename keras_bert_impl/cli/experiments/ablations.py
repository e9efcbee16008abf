"""`keras-bert ablate`."""

import dataclasses
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import (
    MODEL,
    PATH,
    RECIPE,
    add_run,
    add_seeds,
    check_run,
    prepared_strategy,
    print_json,
    print_table,
    say,
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
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.cli.settings import add_settings, given_settings, read_recipe
from keras_bert_impl.experiments.questions import (
    FINETUNING,
    QUESTIONS,
    AblationSettings,
    checked_seeds,
    chosen_questions,
    with_defaults,
)
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.io.settings import PositiveFloat
from keras_bert_impl.pretraining.recipes import recipes
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings, with_settings_of
from keras_bert_impl.tasks.names import registered_tasks

_MAIN = ("budget", "epochs", "learning_rate", "max_length")


@dataclasses.dataclass(frozen=True)
class _Settings(AblationSettings, FinetuneSettings):
    """Settings of fine-tuning in ablations.

    Args:
        learning_rate: Peak learning rate.
    """

    learning_rate: PositiveFloat | None = FINETUNING["learning_rate"]


class Ablate(Command):
    kept = "The finished runs are in {out}."

    example = (
        "  keras-bert ablate --corpus wiki.txt --train train.csv --dev dev.csv \\\n"
        "      --text review --label stars --questions objective,size --out ablation"
    )

    @property
    def settings_class(self) -> type:
        return with_settings_of(_Settings, *registered_tasks())

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("pre-training")
        group.add_argument(
            "--corpus",
            required=True,
            nargs="+",
            type=PATH,
            metavar="FILE",
            help="files or directories of unlabeled text",
        )
        group.add_argument(
            "--questions",
            type=lambda text: text.split(","),
            default="objective",
            metavar="A,B",
            help=f"questions to answer, from {', '.join(QUESTIONS)}",
        )
        add_seeds(group)
        group.add_argument(
            "--pretraining",
            type=RECIPE,
            default="cpu_small",
            metavar="NAME",
            help="recipe or YAML file of pre-training",
        )
        group.add_argument(
            "--tokenizer",
            type=MODEL,
            metavar="DIR",
            help="model directory or name; default: learned tokenizer",
        )
        group.add_argument("--json", action="store_true", help="print the scores as JSON")
        add_run(parser)
        add_examples(parser, is_training=True)
        add_settings(parser, self.settings_class, main=_MAIN)

    def needed(self, arguments: Namespace) -> list[str]:
        return needed_files(arguments)

    def check(self, arguments: Namespace) -> None:
        check_run(arguments)
        if arguments.task == GLUE:
            raise InputError("ablations compare the scores of one task: leave out --task glue.")
        check_examples(arguments)
        checked_seeds(arguments.seeds)
        chosen_questions(arguments.questions)
        self._settings(arguments)
        read_recipe(arguments.pretraining, PretrainSettings, recipes())

    def _settings(self, arguments):
        given = given_settings(arguments, self.settings_class)
        own = {field.name for field in dataclasses.fields(AblationSettings)}
        of_runs = with_defaults({name: given[name] for name in given.keys() - own})
        with_settings_of(FinetuneSettings, *registered_tasks())(**of_runs)
        return given

    def check_files(self, arguments: Namespace) -> None:
        check_tables(arguments)
        read_files(arguments)

    def run(self, arguments: Namespace) -> None:
        settings = self._settings(arguments)
        train, dev = read_train_and_dev(arguments, FinetuneSettings.seed)
        from keras_bert_impl.experiments.ablations import ablate
        from keras_bert_impl.tokenizers import Tokenizer

        name = arguments.tokenizer
        found = ablate(
            arguments.corpus,
            train,
            dev,
            arguments.out,
            arguments.questions,
            arguments.seeds,
            read_recipe(arguments.pretraining, PretrainSettings, recipes()),
            Tokenizer.from_pretrained(name) if name else None,
            strategy=prepared_strategy(arguments),
            resume=arguments.resume,
            say=say,
            **settings,
        )
        if arguments.json:
            print_json(found)
        else:
            _print_answers(found)
        say(f"wrote the runs to {arguments.out}; report.html compares them")


def _print_answers(found):
    for question, variants in found["questions"].items():
        columns = {"name": question, "score": found["metric"], "difference": "difference"}
        print_table(
            [
                {"name": row["name"]}
                | {key: with_bounds(row[key]) for key in ("score", "difference")}
                for row in variants
            ],
            columns,
        )
