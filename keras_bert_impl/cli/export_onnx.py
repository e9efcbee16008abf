"""`keras-bert export --format onnx`: its arguments, and what it says."""

import argparse
import dataclasses
import functools
import importlib.util
import sys
import tempfile
from pathlib import Path

from keras_bert_impl.errors import InputError


def add_arguments(parser):
    """The arguments beside those of every export."""
    group = parser.add_argument_group("with --format onnx")
    group.add_argument("--precision", choices=("fp32", "fp16", "int8"), help="default: fp32")
    group.add_argument("--standard", action="store_true", help="operators of the ONNX standard "
                       "alone, for other runtimes than ONNX Runtime")
    group.add_argument("--calibrate", metavar="FILE", help="with int8: texts, one a line, that the "
                       "scales of activations are taken from; default: from what is computed")
    group.add_argument("--max-drop", type=float, metavar="POINTS", help="refuse to write what "
                       "scores so many points less than the model on the examples below")
    _add_examples(parser.add_argument_group("labelled examples to score the ONNX model on"))


def refuse(arguments):
    """Raises an `InputError` for arguments that another format does not know."""
    for name in ("precision", "standard", "calibrate", "max_drop"):
        value = getattr(arguments, name)
        if value is not None and value is not False:
            raise InputError(f"--{name.replace('_', '-')} goes with --format onnx.")


def run(arguments, model):
    """Exports, and says what came out."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError("ONNX takes two more packages: pip install 'keras-bert-impl[onnx]'.")
    from keras_bert_impl.serving.onnx import export_onnx
    from keras_bert_impl.tasks.tables import read_lines

    calibration = measure = None
    if arguments.calibrate:
        calibration = [text for _, text in read_lines(Path(arguments.calibrate)) if text.strip()]
    if arguments.dev or arguments.task:
        measure = functools.partial(_points, examples=_read_examples(arguments))
    report = export_onnx(
        model,
        arguments.out,
        arguments.precision or "fp32",
        fused=not arguments.standard,
        calibration=calibration,
        measure=measure,
        max_drop=arguments.max_drop,
    )
    said = f"{report.bytes / 1e6:.1f} MB, outputs within {report.difference:.1g} of the model's"
    if report.before is not None:
        said += f", score {report.before:.2f} before and {report.after:.2f} after"
    print(f"wrote the ONNX model to {arguments.out}: {said}", file=sys.stderr)


def _add_examples(group):
    group.add_argument("--task", help="as of finetune")
    group.add_argument("--data", metavar="DIR", help="as of finetune")
    group.add_argument("--dev", metavar="FILE", help="labelled examples")
    for name in ("text", "pair", "label"):
        group.add_argument(f"--{name}", metavar="COLUMN", help="as of finetune")
    group.add_argument("--label-separator", metavar="TEXT", help="as of finetune")
    group.add_argument("--regression", action="store_true", help="as of finetune")


def _read_examples(arguments):
    from keras_bert_impl.cli.finetune import _examples

    missing = {"language": "en", "tfds": None, "id": None, "skip_bad_rows": False}
    _, dev, *_ = _examples(
        argparse.Namespace(**vars(arguments), **missing, train=arguments.dev)
    )
    return dev


def _points(model, examples):
    """The first metric of the task, in points of a hundred."""
    from keras_bert_impl.tasks.examples import Examples
    from keras_bert_impl.tasks.kinds import kind_of
    from keras_bert_impl.tasks.squad import QuestionExamples
    from keras_bert_impl.tasks.squad_results import score_answers

    if isinstance(examples, QuestionExamples):  # in percent
        answers = model.predict(examples.pairs, verbose=0)
        return next(iter(score_answers(examples, answers, model.null_threshold).values()))
    if isinstance(examples, Examples) and not examples.is_numeric:
        examples = dataclasses.replace(examples, label_names=list(model.labels))
    with tempfile.TemporaryDirectory() as scratch:
        scores = kind_of(examples, examples).finish(model, examples, Path(scratch))
    return 100 * next(iter(scores.values()))
