"""`keras-bert adapt`: continues masked LM pre-training on text of a domain."""

import dataclasses
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_run, check_run, prepared_strategy, say
from keras_bert_impl.cli.kinds import MODEL, PATH
from keras_bert_impl.cli.settings import add_settings, resolve_settings
from keras_bert_impl.pretraining.settings import AdaptationSettings

EXAMPLE = (
    "  keras-bert adapt --model DIR corpus.txt --out adapted --adapt-steps 5000\n"
    "  keras-bert finetune --model adapted/run/model --out run \\\n"
    "      --train train.csv --dev dev.csv --text review --label stars"
)


@dataclasses.dataclass(frozen=True)
class _Settings(AdaptationSettings):
    """Precision and seed.

    Args:
        dtype: Dtype policy of Keras, such as `"mixed_bfloat16"`.
        seed: Seed of all random choices.
    """

    dtype: str = "float32"
    seed: int = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = parser.add_argument_group("text and model")
    group.add_argument(
        "text", type=PATH, help="text without labels: a file, a folder or a tfds:// name"
    )
    group.add_argument(
        "--model",
        required=True,
        type=MODEL,
        metavar="MODEL",
        help="model directory or published name to train further",
    )
    add_run(parser)
    add_settings(parser, _Settings, main=[field.name for field in dataclasses.fields(_Settings)])


def check(arguments: Namespace) -> None:
    """Checks the combination of arguments, and the settings."""
    check_run(arguments)
    resolve_settings(arguments, _Settings)


def run(arguments: Namespace) -> None:
    """Adapts the model, and prints where it is."""
    settings = resolve_settings(arguments, _Settings)
    from keras_bert_impl.pretraining.adaptation import adapt
    from keras_bert_impl.reports.finished import describe_run
    from keras_bert_impl.training.strategy import is_chief

    adapted = adapt(
        arguments.model,
        arguments.text,
        arguments.out,
        strategy=prepared_strategy(arguments),
        resume=arguments.resume,
        **dataclasses.asdict(settings),
    )
    if is_chief():
        describe_run(Path(arguments.out) / "run")
    say(f"wrote the model to {adapted}")
