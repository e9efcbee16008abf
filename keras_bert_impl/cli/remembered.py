"""The read options of a run, which are the defaults of `predict` and `evaluate`."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from keras_bert_impl.cli.examples import check_tables, read_examples_of
from keras_bert_impl.data.tables.source import ExampleSource, applicable
from keras_bert_impl.data.tables.splits import hold_out
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.lines import suffix_of
from keras_bert_impl.utils.io.reading import file_within
from keras_bert_impl.utils.io.run_files import read_run_file
from keras_bert_impl.utils.settings import settings_hints

_PLACES = ("train", "dev", "data", "tfds")
# Options, such as columns, that also apply to other files.
_COLUMNS = (
    *("text", "pair", "negative", "label", "label_separator", "single_label"),
    *("word_prefix", "outside", "regression"),
)
OF_FORM = ("delimiter", "encoding", "no_header", "sentence")  # options of a single file format


def options_of(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Returns the options with which the examples are read. A run saves them in `data.json`."""
    values = vars(arguments) | {"seed": seed}
    names = [field.name for field in dataclasses.fields(ExampleSource) if field.name in values]
    options = {name: values[name] for name in [*names, "task", "dev_split", "seed"]}
    for name in _PLACES:
        if isinstance(options[name], list):
            options[name] = list(map(_make_absolute, options[name]))
        elif options[name]:
            options[name] = _make_absolute(options[name])
    return options


def _make_absolute(name):
    return str(Path(name).absolute()) if Path(name).exists() else name


def files_of(value: str | list[str] | None) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def run_of(model: str | Path) -> str | Path | None:
    return model if (Path(model) / "model").is_dir() else None


def read_options(run: str | Path) -> dict[str, Any]:
    path = file_within(run, "data.json")
    return read_run_file(path, _parse_options) if path.is_file() else {}


def _parse_options(data):
    """Returns the options in `data.json`; raises `InputError` if one has the wrong type."""
    options = data.mapping("read_with")
    for name, annotation in settings_hints(ExampleSource).items():
        options.setting(name, annotation, None)
    for name, annotation in (("task", str), ("dev_split", float), ("seed", int)):
        options.setting(name, annotation, None)
    return dict(options)


def has_data(arguments: argparse.Namespace) -> bool:
    return any(vars(arguments).get(name) for name in _PLACES)


def with_columns(arguments: argparse.Namespace, options: dict[str, Any]) -> argparse.Namespace:
    names = list(_COLUMNS)
    files = files_of(arguments.dev)
    form = form_of_run(options, files[0]) if files else None
    if form is None and options.get("task") == "tagging":
        names = ["outside", "word_prefix"]
    if options.get("task") == "tagging":
        names.append("labels")  # a file may contain only class indices
    columns = {name: options[name] for name in names if name in options}
    return _fill_options(arguments, columns | (form or {}))


def with_columns_of_run(arguments: argparse.Namespace) -> argparse.Namespace:
    """If `--model` is a run, adds the columns and the task of the run to the arguments.

    If the user passed columns, a task or a data set, the arguments are not changed.
    """
    values = vars(arguments)
    run = run_of(arguments.model) if arguments.model and arguments.train else None
    if run is None or any(values[name] for name in ("task", "data", "tfds", *_COLUMNS)):
        return arguments
    options = read_options(run)
    if options.get("data") or options.get("tfds"):
        return arguments
    files = {"dev": files_of(arguments.train)[0]}
    new_arguments = with_columns(argparse.Namespace(**values | files), options)
    task = {"task": options.get("task")}
    return argparse.Namespace(**vars(new_arguments) | task | {"dev": arguments.dev})


def form_of_run(options: dict[str, Any], path: str | Path) -> dict[str, Any] | None:
    """Returns the file format options of a run, such as the delimiter.

    Returns None if no file of the run has the suffix of `path`. If the file at `path` is valid
    UTF-8, the encoding is omitted.
    """
    before = files_of(options.get("dev") or options.get("train"))
    if suffix_of(path) not in map(suffix_of, before):
        return None
    return applicable({name: options[name] for name in OF_FORM if name in options}, path)


def with_form(arguments: argparse.Namespace, path: str | Path) -> argparse.Namespace:
    """Adds the file format options of the run to the arguments; see `form_of_run`."""
    form = form_of_run(read_options(arguments.model), path) or {}
    return _fill_options(arguments, {name: form[name] for name in form if name in vars(arguments)})


def with_data(
    arguments: argparse.Namespace, options: dict[str, Any], run: str | Path
) -> argparse.Namespace:
    """Adds the files on which a run was scored and their read options to the arguments."""
    run_options = {"language": ExampleSource.language} | options
    train = run_options.pop("train", None)
    if run_options.get("dev_split"):
        run_options["dev"] = train
    for path in [*files_of(run_options.get("dev")), *files_of(run_options.get("data"))]:
        if Path(path).is_absolute() and not Path(path).exists():
            raise InputError(
                f"{path}, on which {run} was scored, does not exist. Pass the data to score on "
                "with --dev FILE."
            )
    if arguments.language == ExampleSource.language:
        arguments = argparse.Namespace(**vars(arguments) | {"language": None})
    return _fill_options(arguments, run_options)


def _fill_options(arguments, options):
    passed_values = {
        name: value for name, value in vars(arguments).items() if value not in (None, "", False)
    }
    return argparse.Namespace(**vars(arguments) | options | passed_values)


def completed(arguments: argparse.Namespace, run: str | Path) -> tuple[argparse.Namespace, bool]:
    """Adds the columns of a run to the arguments and, if the user passed no data, also the files.

    Returns:
        (the new arguments, whether the validation data of the run are used).
    """
    options = read_options(run)
    if has_data(arguments):
        return (with_columns(arguments, options) if options else arguments), False
    return (with_data(arguments, options, run), True) if options else (arguments, False)


def read_scored(model: Any, arguments: argparse.Namespace, split: str) -> Any:
    """Reads the examples of a split. `--dev-split` holds out the same examples as in the run."""
    share = vars(arguments).get("dev_split")
    whole = argparse.Namespace(**vars(arguments) | {"dev_split": None})
    examples = read_examples_of(model, whole, split)
    return hold_out(examples, share, arguments.seed)[1] if share else examples


def check_scored_table(arguments: argparse.Namespace) -> None:
    options = read_options(arguments.model)
    if options and arguments.dev and not (arguments.task or options.get("task")):
        vars(arguments).update(vars(with_columns(arguments, options)))
        check_tables(arguments)


def check_unchanged(run: str | Path, examples: Any) -> None:
    """Raises `InputError` if examples have changed since a run was scored on them."""
    data = file_within(run, "data.json")
    before = read_run_file(data, lambda data: data.mapping("dev").text("sha256"))
    if before != examples.fingerprint:
        raise InputError(
            f"{examples.source} has changed since {run} was scored on it. To score on the changed "
            "file, pass --dev FILE."
        )
