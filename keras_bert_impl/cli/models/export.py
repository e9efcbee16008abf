"""`keras-bert export`: writes a model as an artifact that runs without this package."""

import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from keras_bert_impl.cli.common import add_tuned_model, say
from keras_bert_impl.cli.models import export_network
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert export --model run --out models/reviews --check\n"
    "  keras-bert export --model run --check models/reviews/1\n"
    "  keras-bert export --model bert-base-uncased --as encoder --out models/bert\n"
    "  keras-bert export --model run --out exported --format onnx --precision int8 --max-drop 0.5 "
    "--dev dev.csv --text review --label stars"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_tuned_model(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the directory to write; for a SavedModel, the folder of the model's versions, which "
        "has the model's name and gets the next version number",
    )
    parser.add_argument(
        "--format",
        choices=("saved_model", *export_network.FORMATS),
        default="saved_model",
        help="a SavedModel that takes raw strings, or a model for another runtime that takes token "
        "ids; default: saved_model",
    )
    parser.add_argument(
        "--as",
        dest="use",
        choices=["encoder", "embedder", "masked-lm"],
        help="the kind of model to export; default: the task that it was fine-tuned for",
    )
    parser.add_argument(
        "--ids-only",
        action="store_true",
        help="SavedModel only: take token ids but no strings, for a server without TF-Text",
    )
    parser.add_argument(
        "--xla",
        metavar="ROWSxLENGTH,...",
        help="SavedModel only: batch shapes that XLA compiles the encoder for, such as "
        "1x128,8x128; batches are padded to a shape if they fill at least half of it, and run "
        "without XLA otherwise",
    )
    parser.add_argument(
        "--check",
        nargs="?",
        const=True,
        metavar="DIR",
        help="run the exported SavedModel, or the one in DIR, in a process that has only "
        "TensorFlow and TF-Text, and exit with status 1 if its outputs differ from the model's by "
        "more than 1e-5",
    )
    export_network.add_arguments(parser)


def run(arguments: Namespace) -> None:
    """Exports a model and prints where, or checks an export and prints the largest difference."""
    _check_arguments(arguments)
    buckets = _buckets(arguments.xla)
    from keras_bert_impl.tasks.runs.served import load_model, load_signatures

    if arguments.format != "saved_model":
        # The exported file is compared with a float32 model.
        model = load_model(arguments.model, arguments.use, "float32", arguments.base)
        export_network.run(arguments, model)
        return
    from keras_bert_impl.serving import export_version

    signatures = load_signatures(arguments.model, arguments.use, arguments.dtype, arguments.base)
    signatures.buckets = buckets
    path = arguments.check
    if arguments.out:
        run_directory = arguments.model if (Path(arguments.model) / "model").is_dir() else None
        path = export_version(signatures, arguments.out, arguments.ids_only, run_directory)
        say(f"wrote the SavedModel to {path}")
    if arguments.check:
        _check(signatures, path)


def _check_arguments(arguments):
    export_network.check(arguments)
    if arguments.format != "saved_model":
        for name in ("ids_only", "check", "dtype", "xla"):
            if getattr(arguments, name):
                raise InputError(f"--{name.replace('_', '-')} needs --format saved_model.")
        if not arguments.out:
            raise InputError("--out, the directory to write, is missing.")
        return
    if bool(arguments.out) == isinstance(arguments.check, str):
        raise InputError("give --out to export, or --check DIR to check what was exported.")
    if arguments.ids_only and arguments.check:
        raise InputError("--check sends strings, which --ids-only does not export.")
    if arguments.xla and not arguments.out:
        raise InputError("--xla needs --out, the SavedModel to write.")


def _buckets(text):
    """Parses the value of `--xla` to a list of (rows, length)."""
    if text is None:
        return []
    buckets = [re.fullmatch(r"(\d+)x(\d+)", bucket) for bucket in text.split(",")]
    if not all(buckets):
        raise InputError(f"--xla must be shapes such as 1x128,8x128. Received: {text!r}")
    return [(int(bucket[1]), int(bucket[2])) for bucket in buckets]


def _check(signatures, path):
    from keras_bert_impl.serving import TOLERANCE, largest_difference

    difference = largest_difference(signatures, path)
    print(f"largest difference from the model: {difference:.1e}")
    if not difference <= TOLERANCE:
        say(f"keras-bert: the outputs of {path} differ from the model's.")
        sys.exit(1)
