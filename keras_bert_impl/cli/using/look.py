"""`keras-bert look`: writes a page about what a model does with a text."""

import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.kinds import MODEL, OUTPUT_FILE

EXAMPLE = (
    '  keras-bert look run "a joy from start to end"\n'
    '  keras-bert look bert-base-uncased "Paris is the capital of France." --open\n'
    '  keras-bert look run "Who came?" "Ann came with Bob."'
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "model", type=MODEL, metavar="MODEL", help="run, model directory or published name"
    )
    parser.add_argument(
        "text", metavar="TEXT", help="text; for a pair or a question, the first of two"
    )
    parser.add_argument("pair", nargs="?", metavar="PAIR", help="second text or context, if any")
    parser.add_argument(
        "--out", type=OUTPUT_FILE, metavar="FILE", default="look.html", help="page to write"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(arguments: Namespace) -> None:
    """Prints where the page is."""
    from keras_bert_impl.reports.look_page import look

    text = arguments.text if arguments.pair is None else (arguments.text, arguments.pair)
    path = look(_load(arguments.model), text, arguments.out)
    print(f"wrote {path}")
    if arguments.open:
        webbrowser.open(path.resolve().as_uri())


def _load(name):
    """Loads a task model, else a masked language model, else an encoder."""
    from keras_bert_impl.interop import open_model, read_encoder_config
    from keras_bert_impl.io.errors import InputError
    from keras_bert_impl.models.weights import MissingTensorError
    from keras_bert_impl.tasks import MaskedLM, TextEmbedder
    from keras_bert_impl.tasks.registry import NotFineTunedError, model_class_of
    from keras_bert_impl.tasks.runs.run import load_tuned, model_directory

    directory = model_directory(name)
    if Path(name).exists() and not Path(directory).is_dir():
        raise InputError(f"{name} is a file: name a run, a model directory or a published model.")
    try:
        model_class_of(directory)
    except NotFineTunedError:
        pass
    else:
        return load_tuned(name)
    if read_encoder_config(open_model(directory)).causal:
        return TextEmbedder.from_pretrained(directory)
    try:
        return MaskedLM.from_pretrained(directory)
    except MissingTensorError:  # no masked language modeling head
        return TextEmbedder.from_pretrained(directory)
