"""`keras-bert export`: exports a model to a format that runs without this package."""

import functools
import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert_impl.cli.common import (
    FILE,
    FOLDER,
    MODEL,
    OUTPUT_DIRECTORY,
    add_tuned_model,
    say,
)
from keras_bert_impl.cli.examples import add_examples, check_examples, read_examples_of
from keras_bert_impl.cli.parser import Command, Rare
from keras_bert_impl.cli.remembered import run_of
from keras_bert_impl.serving.graphs.formats import NAMES, exporter
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.progress import Progress

if TYPE_CHECKING:  # imports TensorFlow
    from keras_bert_impl.serving.graphs.signatures import Signatures

# Argument -> the formats that support it.
_ARGUMENTS = {
    "precision": tuple(NAMES),
    "standard": ("onnx",),
    "calibrate": ("onnx", "openvino"),
    "texts": tuple(NAMES),
}
FORMATS = tuple(NAMES)
_OF_IDS = tuple(name for name in FORMATS if name != "mediapipe")


class Export(Command):
    needs_tensorflow_backend = True
    words = ("model",)
    example = (
        "  keras-bert export --model run --out models/reviews --check\n"
        "  keras-bert export --model bert-base-uncased --as encoder --out models/bert\n"
        "  keras-bert export --model run --out exported --format onnx --precision int8\n"
        "  keras-bert export --model runs/topic --with runs/tone --out models/mail"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        group.add_argument(
            "--as",
            dest="use",
            choices=["encoder", "embedder", "masked-lm"],
            help="kind of model to export; default: the task of the model",
        )
        group = parser.add_argument_group("output")
        group.add_argument(
            "--out",
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="directory to write; for a SavedModel, each export adds a numbered version folder",
        )
        group.add_argument(
            "--format",
            choices=("saved_model", *FORMATS),
            default="saved_model",
            metavar="NAME",
            help=f"format: saved_model and mediapipe accept raw strings; {', '.join(_OF_IDS)} "
            "accept ids",
        )
        group = parser.add_argument_group("with --format saved_model")
        group.add_argument(
            "--check",
            nargs="?",
            const=True,
            type=FOLDER,
            metavar="DIR",
            help="compare the outputs of the export (or of DIR) with the model, using only "
            "TensorFlow and TF-Text; exit with status 1 if they differ",
        )
        group.add_argument(
            "--ids-only",
            action="store_true",
            help="accept only token ids, for servers without TF-Text",
        )
        group.add_argument(
            "--no-custom-ops",
            action="store_true",
            help="tokenize with TensorFlow instead of TF-Text, for any runtime that supports "
            "SavedModels",
        )
        group.add_argument(
            "--xla",
            metavar="ROWSxLENGTH,...",
            help="batch shapes for which XLA compiles the encoder, such as 1x128,8x128; a batch "
            "is padded to a shape if it fills at least half of it, and otherwise runs without XLA",
        )
        group.add_argument(
            "--whole-batches",
            action="store_true",
            help="compute each request in one batch, which suits GPUs; default: in chunks of "
            "similar length, which suits CPUs",
        )
        group = parser.add_argument_group(Rare("check of SavedModels of other programs"))
        group.add_argument(
            "--trust-graph",
            action="store_true",
            help="with --check DIR: also run a SavedModel with operations that exports of "
            "keras_bert_impl do not use; such a graph can read and write files",
        )
        group = parser.add_argument_group(Rare("several models in one SavedModel"))
        group.add_argument(
            "--with",
            dest="others",
            nargs="+",
            type=MODEL,
            metavar="DIR",
            help="export these models in the same SavedModel; weights that are equal, such as the "
            "frozen encoder below adapters, are stored once",
        )
        _add_network_arguments(parser)
        group = parser.add_argument_group(Rare("comparison of scores"))
        group.add_argument(
            "--max-drop",
            type=float,
            metavar="POINTS",
            help="write nothing if the exported model scores more than this number of points "
            "below the float32 model",
        )
        title = Rare("labeled examples on which the exported model is scored")
        add_examples(parser, is_training=False, title=title)

    def needed(self, arguments: Namespace) -> list[str]:
        return [] if arguments.check else ["out"]

    def check(self, arguments: Namespace) -> None:
        check_examples(arguments)
        _check_network(arguments)
        if arguments.max_drop is not None and not has_examples(arguments):
            raise InputError(
                "--max-drop requires labeled examples: --dev FILE, or --task with --data."
            )
        _parse_buckets(arguments.xla)
        if arguments.out and (Path(arguments.out) / "recipe.yaml").is_file():
            raise InputError(f"{arguments.out} is a run; choose a different folder for the export.")
        if arguments.format != "saved_model":
            for name in (
                "ids_only",
                "no_custom_ops",
                "check",
                "trust_graph",
                "dtype",
                "xla",
                "whole_batches",
                "others",
            ):
                if getattr(arguments, name):
                    raise InputError(f"{_format_option(name)} requires --format saved_model.")
            return
        for name in ("use", "dev", "task") if arguments.others else ():
            if getattr(arguments, name):
                raise InputError(f"{_format_option(name)} cannot be combined with --with.")
        if bool(arguments.out) == isinstance(arguments.check, str):
            raise InputError("pass --out to export, or --check DIR to check an export.")
        if arguments.trust_graph and not isinstance(arguments.check, str):
            raise InputError("--trust-graph requires --check DIR, the SavedModel to trust.")
        if arguments.ids_only and arguments.check:
            raise InputError("--check compares outputs for strings. Leave out --ids-only.")
        for name in ("no_custom_ops", "xla", "whole_batches", "dev", "task", "max_drop"):
            if getattr(arguments, name) and not arguments.out:
                raise InputError(f"{_format_option(name)} requires --out, the SavedModel to write.")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.evaluation import load_model, load_several, load_signatures

        if arguments.format != "saved_model":
            with Progress("loading the model"):
                # The export is compared with the float32 model.
                model = load_model(arguments.model, arguments.use, "float32", arguments.base)
            _export_network(arguments, model)
            return
        from keras_bert_impl.serving import export_version

        how = arguments.dtype, arguments.base
        with Progress("loading the model"):
            if arguments.others:
                several = load_several([arguments.model, *arguments.others], *how)
                if arguments.check and not several.answers_at_once:
                    raise InputError("--check requires models with equal tasks and tokenizers.")
                signatures: Signatures = several
            else:
                signatures = load_signatures(arguments.model, arguments.use, *how)
        signatures.buckets = _parse_buckets(arguments.xla)
        signatures.whole_batches = arguments.whole_batches
        signatures.custom_ops = not arguments.no_custom_ops
        path = arguments.check
        if arguments.out:
            if has_examples(arguments):
                say(_score(arguments, signatures.model))
            with Progress("writing the SavedModel"):
                run = None if arguments.others else run_of(arguments.model)
                path = export_version(signatures, arguments.out, arguments.ids_only, run)
            say(f"wrote the SavedModel to {Path(arguments.out) / path.name}")
            _print_neighbors(arguments, signatures.model)
        if arguments.check:
            _check(signatures, path, arguments.trust_graph)


def _format_option(name):
    return {"use": "--as", "others": "--with"}.get(name, f"--{name.replace('_', '-')}")


def _parse_buckets(text):
    if text is None:
        return []
    buckets = [re.fullmatch(r"(\d+)x(\d+)", bucket) for bucket in text.split(",")]
    if not all(buckets):
        raise InputError(f"--xla must be shapes such as 1x128,8x128. Received: {text!r}")
    return [(int(bucket[1]), int(bucket[2])) for bucket in buckets]


def _score(arguments, model):
    """Returns a sentence with the scores of the float32 model and the exported model."""
    from keras_bert_impl.runs.evaluation import load_model
    from keras_bert_impl.serving.graphs.formats import check_drop

    with Progress("scoring the model"):
        float32 = load_model(arguments.model, arguments.use, "float32", arguments.base)
        examples = read_examples_of(model, arguments, "dev")
        before, after = (points(each, examples) for each in (float32, model))
    check_drop(before, after, arguments.max_drop)
    return f"score {before:.2f} in float32 and {after:.2f} as exported"


def _print_neighbors(arguments, model):
    """For a 16-bit embedder, prints how many nearest neighbors differ from float32."""
    if not hasattr(model, "similarity") or model.encoder.compute_dtype == "float32":
        return
    from keras_bert_impl.runs.evaluation import load_model
    from keras_bert_impl.serving.network.proof import changed_neighbors

    with Progress("comparing nearest neighbors with float32"):
        float32 = load_model(arguments.model, arguments.use, "float32", arguments.base)
        say(f"{changed_neighbors(float32, model)}, compared with float32")


def _check(signatures, path, trust_graph):
    from keras_bert_impl.serving.check import largest_difference, tolerance_of

    with Progress("checking the SavedModel in another process"):
        difference = largest_difference(signatures, path, trust_graph=trust_graph)
    print(f"largest difference from the model: {difference:.1e}")
    tolerance = tolerance_of(signatures)
    if not difference <= tolerance:
        say(f"keras-bert: {path} and the model have outputs that differ by more than {tolerance}.")
        sys.exit(1)


# === Networks without the tokenizer ===


def _add_network_arguments(parser: ArgumentParser) -> None:
    group = parser.add_argument_group(Rare(f"with --format {', '.join(FORMATS)}"))
    group.add_argument(
        "--precision",
        choices=("fp32", "bf16", "fp16", "int8"),
        help="precision of the weights or, for bf16 (OpenVINO only), of the computation; default: "
        "fp32",
    )
    group.add_argument(
        "--standard",
        action="store_true",
        help="ONNX only: use only standard operators, for runtimes other than ONNX Runtime",
    )
    group.add_argument(
        "--texts",
        type=FILE,
        metavar="FILE",
        help="file with one text per line, to compare the outputs and the nearest neighbors; "
        "default: built-in texts",
    )
    group.add_argument(
        "--calibrate",
        type=FILE,
        metavar="FILE",
        help="file with one text per line, for static quantization (int8 in ONNX and OpenVINO); "
        "default: dynamic quantization",
    )


def _check_network(arguments: Namespace) -> None:
    for name, formats in _ARGUMENTS.items():
        value = getattr(arguments, name)
        if value is not None and value is not False and arguments.format not in formats:
            raise InputError(
                f"--{name.replace('_', '-')} requires --format {' or '.join(formats)}."
            )
    if arguments.precision == "bf16" and arguments.format != "openvino":
        raise InputError("--precision bf16 requires --format openvino.")


def has_examples(arguments: Namespace) -> bool:
    return bool(arguments.dev or arguments.task)


def _export_network(arguments: Namespace, model: Any) -> None:
    export, name = exporter(arguments.format), NAMES[arguments.format]
    from keras_bert_impl.data.tables.tables import text_lines

    settings: dict[str, Any] = {"fused": False} if arguments.standard else {}
    for option, setting in (("calibrate", "calibration"), ("texts", "texts")):
        if path := getattr(arguments, option):
            lines = text_lines(Path(path))
            settings[setting] = [text for _, text in lines if text.strip()]
    if not hasattr(model, "tokenizer"):  # A plain encoder has no tokenizer.
        from keras_bert_impl.checkpoints.interop import open_model
        from keras_bert_impl.models.conversion.formats import read_tokenizer

        settings["tokenizer"] = read_tokenizer(open_model(arguments.model))
    if has_examples(arguments):
        examples = read_examples_of(model, arguments, "dev")
        settings["measure"] = functools.partial(points, examples=examples)
        if arguments.format == "mediapipe":  # MediaPipe models take texts.
            settings.setdefault("texts", [text for text in examples.texts if text.strip()])
    with Progress(f"writing and checking the {name} model"):
        report = export(
            model,
            arguments.out,
            arguments.precision or "fp32",
            max_drop=arguments.max_drop,
            run=run_of(arguments.model),
            **settings,
        )
    line = f"{report.bytes / 1e6:.1f} MB, outputs differ by at most {report.difference:.1g}"
    if report.before is not None:
        line += f", score {report.before:.2f} before and {report.after:.2f} after"
    if report.neighbors is not None:
        line += f"; {report.neighbors}"
    if report.answers is not None:
        line += f"; {report.answers}"
    say(f"wrote the {name} model to {arguments.out}: {line}")


def points(model: Any, examples: Any) -> float:
    """Returns the model's score on examples, from 0 to 100."""
    from keras_bert_impl.data.scores.metrics import comparable
    from keras_bert_impl.tasks.registry import score, task_of_model

    first = comparable(*next(iter(score(model, examples).items())))
    return 100 * first / task_of_model(model).highest_score
