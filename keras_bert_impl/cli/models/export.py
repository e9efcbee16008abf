"""`keras-bert export`: writes a model as an artifact that runs without this package."""

import re
import sys
from pathlib import Path

from keras_bert_impl.cli.models import export_network
from keras_bert_impl.io.errors import InputError

EXAMPLE = (
    "  keras-bert export --model run --out models/reviews --check\n"
    "  keras-bert export --model run --check models/reviews/1\n"
    "  keras-bert export --model bert-base-uncased --as encoder --out models/bert\n"
    "  keras-bert export --model run --out exported --format onnx --precision int8 --max-drop 0.5 "
    "--dev dev.csv --text review --label stars"
)


def add_arguments(parser):
    """Adds the arguments of the command."""
    parser.add_argument("--model", required=True, metavar="DIR", help="a run or model directory")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the directory to write; of SavedModels the folder of the model's versions, which is "
        "named as the model: it is written to the next number in it",
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
        help="what to take the model for; default: the task that it was tuned for",
    )
    parser.add_argument(
        "--ids-only",
        action="store_true",
        help="of a SavedModel: take token ids alone, for a server without TF-Text",
    )
    parser.add_argument(
        "--xla",
        metavar="ROWSxLENGTH,...",
        help="of a SavedModel: batches that XLA compiles the encoder for, such as 1x128,8x128; "
        "those that fill half of one or more are padded to it, others not compiled",
    )
    parser.add_argument(
        "--check",
        nargs="?",
        const=True,
        metavar="DIR",
        help="ask the SavedModel that was exported, or that in DIR, in a process that has only "
        "TensorFlow and TF-Text, and compare with the model; status 1 where they differ by more "
        "than 1e-5",
    )
    parser.add_argument("--base", metavar="MODEL", help="what it was tuned from, if that has moved")
    parser.add_argument("--dtype", help="Keras dtype policy; default: that of the run, or float32")
    export_network.add_arguments(parser)


def run(arguments):
    """Exports and prints where; checks the result and prints the largest difference."""
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
        print(f"wrote the SavedModel to {path}", file=sys.stderr)
    if arguments.check:
        _check(signatures, path)


def _check_arguments(arguments):
    export_network.check(arguments)
    if arguments.format != "saved_model":
        for name in ("ids_only", "check", "dtype", "xla"):
            if getattr(arguments, name):
                raise InputError(f"--{name.replace('_', '-')} goes with SavedModels alone.")
        if not arguments.out:
            raise InputError("--out is missing, the directory to write.")
        return
    if bool(arguments.out) == isinstance(arguments.check, str):
        raise InputError("give --out to export, or --check DIR to check what was exported.")
    if arguments.ids_only and arguments.check:
        raise InputError("--check asks with strings, which --ids-only leaves out.")
    if arguments.xla and not arguments.out:
        raise InputError("--xla goes with --out, the SavedModel to write.")


def _buckets(text):
    """Parses the value of `--xla` to a list of (rows, length)."""
    if text is None:
        return []
    buckets = [re.fullmatch(r"(\d+)x(\d+)", bucket) for bucket in text.split(",")]
    if not all(buckets):
        raise InputError(f"--xla takes rows and lengths such as 1x128,8x128. Received: {text!r}")
    return [(int(bucket[1]), int(bucket[2])) for bucket in buckets]


def _check(signatures, path):
    from keras_bert_impl.serving import TOLERANCE, largest_difference

    difference = largest_difference(signatures, path)
    print(f"largest difference from the model: {difference:.1e}")
    if not difference <= TOLERANCE:
        print(f"keras-bert: {path} does not answer as the model does.", file=sys.stderr)
        sys.exit(1)
