"""`keras-bert export --format onnx`: its arguments, and what it says."""

import functools
import importlib.util
import sys
from pathlib import Path

from keras_bert_impl.cli.examples import add_examples, read_examples
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
    group = parser.add_argument_group("labelled examples to score the ONNX model on")
    add_examples(group, is_training=False)


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
        measure = functools.partial(_points, examples=read_examples(arguments, "dev"))
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


def _points(model, examples):
    """The first metric of the task, in points of a hundred."""
    from keras_bert_impl.tasks.kinds import score
    from keras_bert_impl.tasks.squad import QuestionExamples

    first = next(iter(score(model, examples).values()))
    return first if isinstance(examples, QuestionExamples) else 100 * first  # SQuAD's is in percent
