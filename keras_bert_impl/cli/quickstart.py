"""`keras-bert quickstart`: the whole path, on text that is already on this machine."""

import logging
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import print_json, say
from keras_bert_impl.cli.kinds import OUTPUT_DIRECTORY
from keras_bert_impl.cli.settings import add_settings, resolve_settings
from keras_bert_impl.quickstart.settings import QuickstartSettings, check_ready

EXAMPLE = "  keras-bert quickstart --out quickstart-run"

_MAIN = (
    "num_layers", "hidden_dim", "num_heads", "vocabulary_size", "length", "batch_size",
    "pretraining_steps", "learning_rate", "finetuning_epochs", "finetuning_rate", "seed",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--out",
        type=OUTPUT_DIRECTORY,
        default="quickstart-run",
        metavar="DIR",
        help="directory to write, where finished steps are kept",
    )
    group.add_argument("--json", action="store_true", help="print the scores as JSON")
    add_settings(parser, QuickstartSettings, main=_MAIN)


def check(arguments: Namespace) -> None:
    """Checks the settings, the packages, and the folder to write."""
    resolve_settings(arguments, QuickstartSettings)
    check_ready(arguments.out)


def run(arguments: Namespace) -> None:
    """Runs the job and prints its results."""
    settings = resolve_settings(arguments, QuickstartSettings)
    from keras_bert_impl.quickstart import show
    from keras_bert_impl.quickstart.main_job import MainJob

    # Warnings about missing heads matter to users with weights of their own; here they are
    # expected at every step.
    logging.getLogger("keras_bert_impl.models").setLevel(logging.ERROR)
    job = MainJob(arguments.out, settings, say=say)
    scores = job.run()
    pictures = show.draw(job, scores)
    if arguments.json:
        print_json(scores)
        return
    for title, lines in (
        ("", show.score_lines(scores)),
        ("masked words in held-out sentences", show.fill_mask_lines(job)),
        (
            "answers in a new process that has only tensorflow and tensorflow_text",
            show.answer_lines(job),
        ),
        ("pictures", [f"  {path}" for path in pictures]),
    ):
        print("\n".join(filter(None, ["", title, *lines])))
