"""`keras-bert adapt`: continues masked LM pre-training on text of a domain."""

import dataclasses
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import add_run, prepared_strategy, say
from keras_bert_impl.cli.settings import add_settings, resolve_settings
from keras_bert_impl.pretraining.settings import AdaptationSettings

EXAMPLE = (
    "  keras-bert adapt --model DIR corpus.txt --out adapted adapt_steps=5000\n"
    "  keras-bert finetune --model adapted/run/model --train train.csv --dev dev.csv --text review "
    "--label stars --out run"
)


@dataclasses.dataclass(frozen=True)
class _Settings(AdaptationSettings):
    """All settings of the command."""

    dtype: str = "float32"
    seed: int = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("text", help="text without labels: a file, a folder or a tfds:// name")
    parser.add_argument(
        "--model",
        required=True,
        metavar="DIR",
        help="the model directory, or the name of a model, to train further",
    )
    add_run(parser)
    add_settings(parser, _Settings)


def run(arguments: Namespace) -> None:
    """Adapts the model, and prints where it is."""
    settings = resolve_settings(arguments, _Settings)
    from keras_bert_impl.pretraining.adaptation import adapt

    adapted = adapt(
        arguments.model,
        arguments.text,
        arguments.out,
        strategy=prepared_strategy(arguments),
        resume=arguments.resume,
        progress=say,
        **dataclasses.asdict(settings),
    )
    say(f"wrote the model to {adapted}")
