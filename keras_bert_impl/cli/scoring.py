"""`keras-bert evaluate`, `report` and `drift`: scores, reports and data drift."""

import functools
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from keras_bert_impl.cli.common import (
    FOLDER,
    MODEL,
    OUTPUT_DIRECTORY,
    OUTPUT_FILE,
    PATH,
    add_base,
    add_dtype,
    add_tuned_model,
    print_json,
    print_line,
    print_scores,
    print_table,
    say,
)
from keras_bert_impl.cli.examples import (
    add_examples,
    check_examples,
    read_examples,
    read_more,
)
from keras_bert_impl.cli.parser import Command
from keras_bert_impl.cli.predicting import (
    add_inputs,
    labeled_inputs,
    read_inputs,
    read_training_set,
)
from keras_bert_impl.cli.remembered import (
    check_scored_table,
    check_unchanged,
    completed,
    has_data,
    read_options,
    read_scored,
    with_form,
)
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import encoded_as
from keras_bert_impl.utils.progress import Progress


class Evaluate(Command):
    words = ("model", "dev")
    example = (
        "  keras-bert evaluate --model run\n"
        "  keras-bert evaluate --model run --dev test.csv --out scored\n"
        "  keras-bert evaluate --model run --task mrpc --data glue\n"
        "  keras-bert evaluate --model run --dev test.conllu --json\n"
        "  keras-bert evaluate --model run --against old --dev test.csv --max-drop 0.01"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        add_examples(parser, is_training=False)
        group.add_argument(
            "--test",
            action="store_true",
            help="score the test set of --data, which must be labeled, instead of the validation "
            "set",
        )
        group.add_argument(
            "--out",
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="directory for the predictions and scores.json",
        )
        group.add_argument(
            "--against",
            type=MODEL,
            metavar="OLD",
            help="run or model directory, or name, of another model that is scored on the same "
            "examples",
        )
        group.add_argument(
            "--max-drop",
            type=float,
            metavar="X",
            help="exit with status 1 if the first metric is more than X below its value for "
            "--against",
        )
        group.add_argument("--json", action="store_true", help="print the scores as JSON")

    def check(self, arguments: Namespace) -> None:
        check_examples(arguments)
        if arguments.max_drop is not None and not (arguments.against and arguments.max_drop >= 0):
            raise InputError("--max-drop must be at least 0 and requires --against OLD.")

    def check_files(self, arguments: Namespace) -> None:
        check_scored_table(arguments)

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.evaluation import compare, evaluate
        from keras_bert_impl.runs.inputs import with_metric_of

        arguments, is_same = completed(arguments, arguments.model)
        model = _load(arguments.model, arguments, arguments.base)
        examples = read_scored(model, arguments, "test" if arguments.test else "dev")
        if is_same and not arguments.test:
            check_unchanged(arguments.model, examples)
            say(f"scores on {examples.source}, as in the run")
        examples = with_metric_of(arguments.model, examples)
        extra_examples = {} if arguments.test else read_more(arguments)
        scores = evaluate(model, examples, arguments.out, extra_examples)
        change = None
        if arguments.against:
            old = _load(arguments.against, arguments)
            change = compare(model, old, examples)
        if arguments.json:
            print_json(scores if change is None else scores | {"against": change.as_dict()})
        else:
            print_scores(scores)
            if change is not None:
                print_line(str(change))
        if change is not None and arguments.max_drop is not None:
            if change.gain.value < -arguments.max_drop:
                say(f"{change.metric} dropped by more than {arguments.max_drop:g}")
                sys.exit(1)


def _load(model, arguments, base=None):
    """Loads a fine-tuned model; for embeddings, any model, with mean pooling by default."""
    from keras_bert_impl.runs.run import load_embedder, load_tuned
    from keras_bert_impl.tasks.embedding import TASK_NAME
    from keras_bert_impl.tasks.registry import NotFineTunedError

    try:
        return load_tuned(model, arguments.dtype, base)
    except NotFineTunedError:
        if arguments.task != TASK_NAME:
            raise
        return load_embedder(model, arguments.dtype, base=base)


class Report(Command):
    words = ("run", "dev")
    example = (
        "  keras-bert report run\n"
        "  keras-bert report sweep\n"
        "  keras-bert report run --dev dev.csv --text review --label stars \\\n"
        "      --pictures figures\n"
        "  keras-bert report run-a run-b --dev dev.csv --text review \\\n"
        "      --label stars --out a-and-b.html"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("runs and output")
        group.add_argument(
            "run",
            nargs="+",
            type=FOLDER,
            metavar="RUN",
            help="run directory; to compare, several runs or a sweep",
        )
        group.add_argument(
            "--out",
            type=OUTPUT_FILE,
            metavar="FILE",
            help="HTML file to write; default: report.html in the run, or comparison.html",
        )
        group.add_argument(
            "--pictures",
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="directory for the charts, as SVG and PNG files",
        )
        add_base(group)
        add_dtype(group)
        add_examples(parser, is_training=False, title="examples; default: the run's examples")

    def check(self, arguments: Namespace) -> None:
        check_examples(arguments)

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.reports import write_comparison, write_report
        from keras_bert_impl.reports.glue_page import is_benchmark, write_glue_page
        from keras_bert_impl.reports.run_files import runs_of

        run, *other_runs = arguments.run
        if any(map(is_benchmark, arguments.run)):
            for name in ("dev", "data", "tfds", "dtype", "base", "pictures"):
                if getattr(arguments, name):
                    raise InputError(
                        f"--{name} is not supported for GLUE reports. Leave out --{name}."
                    )
            out = arguments.out or ("comparison.html" if other_runs else Path(run) / "report.html")
            print_line(f"wrote {write_glue_page(arguments.run, out)}")
            return
        is_set = len(runs_of(run)) > 1
        if other_runs or is_set:
            for name in ("dtype", "base"):
                if getattr(arguments, name):
                    raise InputError(
                        f"--{name} is only for the report of one run, not for a comparison."
                    )
            examples = None
            if has_data(arguments):
                examples = _read_run_examples(runs_of(run)[0], arguments)
            out = arguments.out or Path("" if other_runs else run) / "comparison.html"
            path = write_comparison(arguments.run, out, examples, arguments.pictures)
        else:
            model_and_examples = _load_model_and_examples(run, arguments)
            path = write_report(run, *model_and_examples, arguments.out, arguments.pictures)
        print_line(f"wrote {path}")


def _read_run_examples(run, arguments):
    """Reads the examples in the arguments with the columns and the task of a run."""
    from keras_bert_impl.tasks.registry import model_class_of

    arguments, _ = completed(arguments, run)
    if (Path(run) / "model").is_dir():
        return read_scored(model_class_of(Path(run) / "model"), arguments, "dev")
    return read_examples(arguments, "dev")


def _load_model_and_examples(run, arguments):
    """Returns the model and the examples for a report, or (None, None) without examples."""
    from keras_bert_impl.runs.run import load_tuned

    is_named = has_data(arguments)
    try:
        arguments, is_same = completed(arguments, run)
        if not (is_named or is_same):
            say(
                "to add classes, calibration and errors, pass --dev FILE --text COLUMN --label "
                "COLUMN"
            )
            return None, None
        if not (Path(run) / "model").is_dir():
            raise InputError(f"{run} has no model yet; finish the run.")
        model = load_tuned(run, arguments.dtype, arguments.base)
        examples = read_scored(model, arguments, "dev")
        if is_same:
            check_unchanged(run, examples)
    except InputError as error:
        if is_named:
            raise
        say(f"the report does not contain classes, calibration and errors: {error}")
        return None, None
    return model, examples


_MOST_CLASSES = 10  # maximum lines per table
_WEEKS = {name: name for name in ("week", "version", "labels", "accuracy", "low", "high")}


class Drift(Command):
    words = ("model", "served")
    example = (
        "  keras-bert drift --model run --served last-week.csv\n"
        "  keras-bert drift --model run --reference dev.csv --served today.csv \\\n"
        "      --text review --check"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = add_tuned_model(parser)
        group.add_argument(
            "--served",
            type=PATH,
            required=True,
            metavar="FILE",
            help="file with texts from requests, in a format that `keras-bert predict` supports",
        )
        group.add_argument(
            "--reference",
            type=PATH,
            metavar="FILE",
            help="texts to compare with; default: the training set of the run",
        )
        add_inputs(parser.add_argument_group("columns of both tables"))
        group = parser.add_argument_group("output")
        group.add_argument(
            "--check", action="store_true", help="exit with status 2 if drift is detected"
        )
        group.add_argument("--json", action="store_true", help="print the comparison as JSON")

    def check(self, arguments: Namespace) -> None:
        arguments.id = None
        options = read_options(arguments.model)
        if arguments.reference is None and not (options.get("train") or options.get("data")):
            raise InputError(
                f"--reference FILE is missing: {arguments.model} does not contain the path of its "
                "training set."
            )

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.runs.drift import compare_samples, sample_of
        from keras_bert_impl.runs.feedback import by_week
        from keras_bert_impl.runs.run import load_tuned

        weeks = [_describe_week(week) for week in by_week(arguments.served)]
        model = load_tuned(arguments.model, arguments.dtype, arguments.base)
        reference, served = (
            sample_of(model, _iterate_inputs(path, arguments, model))
            for path in (arguments.reference, arguments.served)
        )
        compared = compare_samples(reference, served)
        if arguments.json:
            summary = {
                name: {"psi": shift.psi, "p_value": shift.p_value, "verdict": shift.verdict}
                for name, shift in compared.items()
            }
            print_json(summary | ({"weeks": weeks} if weeks else {}))
        else:
            print_table(
                _build_rows(compared, reference, served),
                {"name": "", "reference": "reference", "served": "served"}
                | {"psi": "PSI", "p": "p", "verdict": ""},
            )
            if weeks:
                print_line()
                print_table([_format_row(week) for week in weeks], _WEEKS)
        shifted = [name for name, shift in compared.items() if shift.verdict != "same"]
        if shifted and arguments.check:
            raise InputError(f"{', '.join(shifted)} of {arguments.served}: shifted.")


def _describe_week(week):
    value, low, high = week.accuracy
    return {
        "week": week.monday.isoformat(),
        "version": week.version,
        "labels": week.rows,
        "accuracy": value,
        "low": low,
        "high": high,
    }


def _format_row(row):
    return {k: f"{value:.4f}" if isinstance(value, float) else value for k, value in row.items()}


def _iterate_inputs(path, arguments, model):
    """Yields the inputs in a file, or in the run's training set if `path` is None."""
    options = read_options(arguments.model)
    if path is None:
        yield from read_training_set(options, model).inputs
        return
    arguments = with_form(arguments, path)
    if not arguments.text and (labeled := labeled_inputs(path, options, model)):
        yield from labeled
        return
    with encoded_as(arguments.encoding):
        rows, total = read_inputs(path, arguments, model)
        with Progress(f"reading {path}", total, "texts") as progress:
            for count, (text, _) in enumerate(rows, 1):
                yield text
                progress.update(count)


def _build_rows(compared, reference, served):
    rows = []
    for name, shift in compared.items():
        p = f"{shift.p_value:.3f}" if shift.p_value >= 0.001 else "<0.001"
        row = {"psi": f"{shift.psi:.3f}", "p": p, "verdict": shift.verdict}
        if name in reference.numbers:
            samples = (reference.numbers[name], served.numbers[name])
            rows.append({"name": name} | _apply_to_both(samples, _format_quantiles) | row)
            continue
        samples = (reference.classes[name], served.classes[name])
        rows.append({"name": name} | _apply_to_both(samples, lambda names: f"{len(names):,}") | row)
        for each in sorted(set(samples[0]) | set(samples[1]))[:_MOST_CLASSES]:
            shares = _apply_to_both(samples, functools.partial(_format_share, each))
            rows.append({"name": f"  {each}"} | shares | dict.fromkeys(row, ""))
    return rows


def _format_share(name, names):
    return f"{names.count(name) / len(names):.1%}"


def _apply_to_both(samples, function):
    return dict(zip(("reference", "served"), map(function, samples)))


def _format_quantiles(values):
    median, high = np.quantile(values, [0.5, 0.99], method="higher")
    return f"{median:.4g} (99%: {high:.4g})"
