"""`keras-bert quickstart`: the whole path, on text that is already on this machine."""

import logging
from argparse import ArgumentParser, Namespace

from keras_bert_impl.cli.common import import_tensorflow_quietly, print_json, say
from keras_bert_impl.cli.settings import add_settings, resolve_settings
from keras_bert_impl.quickstart.settings import QuickstartSettings, check_ready

USES_TENSORFLOW = False  # imported when the settings and the folder are known to be usable
EXAMPLE = "  keras-bert quickstart --out quickstart-run"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--out",
        default="quickstart-run",
        metavar="DIR",
        help="the directory to write, where finished steps are kept; default: quickstart-run",
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    add_settings(parser, QuickstartSettings)


def run(arguments: Namespace) -> None:
    """Runs the job and prints its results."""
    settings = resolve_settings(arguments, QuickstartSettings)
    check_ready(arguments.out)
    if not arguments.debug:
        import_tensorflow_quietly(alone=False)
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
