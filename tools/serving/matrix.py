#!/usr/bin/env python
"""Compares every export format of every model with `predict`; writes a table of differences.

Each model runs on texts of 1 to 512 tokens: single texts, batches of 8 texts of the same length,
and a batch of all 64 texts. A cell is the largest difference of an output, or `inf` if a string, an
integer or a shape differs. SavedModels run in processes without this package.

    PYTHONPATH=. python tools/serving/matrix.py --out docs/measurements/formats.md
    PYTHONPATH=. python tools/serving/matrix.py --cases TokenClassifier --formats "ONNX Runtime"
"""

import argparse
import contextlib
import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
from answers import Answers

Table = dict[str, dict[str, float | None]]  # case -> format -> largest difference

_BEGIN, _END = "<!-- matrix: begin -->", "<!-- matrix: end -->"


def main(arguments: list[str] | None = None) -> None:
    """Prints the table, or writes it between its markers in a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", help="rows; default: all")
    parser.add_argument("--formats", nargs="+", help="columns; default: all that are installed")
    parser.add_argument("--out", type=Path, help="a Markdown file with markers for the table")
    options = parser.parse_args(arguments)
    table = as_table(differences(options.cases, options.formats))
    if options.out is None:
        print(table)
    else:
        write_between(options.out, table)


def differences(case_names: list[str] | None = None, formats: list[str] | None = None) -> Table:
    """Runs cases in formats. A difference is None if the format does not support the model.

    Args:
        case_names: cases of `matrix_models`. Default: all.
        formats: keys of `FORMATS`. Default: all.
    """
    import matrix_models

    formats = formats or list(FORMATS)
    table: Table = {}
    with contextlib.ExitStack() as stack:
        columns = {name: stack.enter_context(FORMATS[name]()) for name in formats}
        for cases in matrix_models.cases(case_names):
            with tempfile.TemporaryDirectory() as folder:
                for name, difference_of in columns.items():
                    for case in cases:
                        cells = table.setdefault(case.name, {})
                        cells[name] = difference_of(case, Path(folder))
                        print(f"{case.name}, {name}: {cells[name]}", file=sys.stderr, flush=True)
    return table


def as_table(table: Table) -> str:
    """Returns the result of `differences` in Markdown."""
    formats = list(next(iter(table.values())))
    lines = ["| model | " + " | ".join(formats) + " |", "|---" * (len(formats) + 1) + "|"]
    for name, cells in table.items():
        numbers = ["" if cells[column] is None else f"{cells[column]:.0e}" for column in formats]
        lines.append(f"| {name} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def write_between(path: Path, table: str) -> None:
    """Writes a table between its markers in a file."""
    text = path.read_text(encoding="utf-8")
    before, _, tail = text.partition(_BEGIN)
    _, end, after = tail.partition(_END)
    if not end:
        raise SystemExit(f"{path} must have the lines {_BEGIN} and {_END}.")
    path.write_text(f"{before}{_BEGIN}\n{table}\n{_END}{after}", encoding="utf-8")


# === Formats: context managers that give a function of (case, folder) ===


@contextlib.contextmanager
def _compare_saved_model(loader):
    """A SavedModel that takes strings."""
    from keras_bert_impl.serving.check import difference_of_rows

    with Answers(loader) as answers:

        def difference(case, folder):
            directory = _export_case(case, folder, ids_only=False)
            count, row_differences = len(next(iter(case.inputs.values()))), []
            for signature in case.asked:
                expected = case.reference(signature)
                for rows in _make_slices(count):
                    batches = [{n: of[part] for n, of in case.inputs.items()} for part in rows]
                    received = answers.ask(directory, signature, batches)
                    row_differences.append(difference_of_rows(expected, received))
            return max(row_differences)

        yield difference


@contextlib.contextmanager
def _compare_ids():
    """A SavedModel that takes ids, in a process without TF-Text."""
    from keras_bert_impl.serving.check import difference_of_rows

    with Answers("ids") as answers:

        def difference(case, folder):
            directory = _export_case(case, folder, ids_only=True)
            features = _tokenize_case(case)
            features = {name: features[name] for name in case.signatures.features()}
            expected, row_differences = _compute_expected(case, features), []
            for rows in _make_slices(len(features["token_ids"])):
                batches = [_cut(features, part) for part in rows]
                batches = [{n: rows.tolist() for n, rows in batch.items()} for batch in batches]
                received = answers.ask(directory, "ids", batches)
                if "word_mask" in features:
                    masks = features["word_mask"]
                    received = [_select_words(row, mask) for row, mask in zip(received, masks)]
                row_differences.append(difference_of_rows(expected, received))
            return max(row_differences)

        yield difference


def _compare_session(open_session):
    """A format that contains only the network, run in this process.

    Args:
        open_session: function from a model and a folder to a function, which converts features to
            outputs named as in `Network.outputs_of_model`.
    """

    @contextlib.contextmanager
    def column():
        from keras_bert_impl.serving.graphs.signatures import FEATURES
        from keras_bert_impl.utils.errors import InputError

        def difference(case, folder):
            try:
                session = open_session(case.model, folder)
            except InputError:  # the format does not support the model
                return None
            features, row_differences = _tokenize_case(case), []
            features = {name: features[name] for name in FEATURES}
            for rows in _make_slices(len(features["token_ids"])):
                row_differences += [
                    _measure_difference(case.model, session, _cut(features, part)) for part in rows
                ]
            return max(row_differences)

        yield difference

    return column


def _compare_file(kind, file):
    """Like `_compare_session`, for a format in `keras_bert_impl.serving` with one network file."""

    def open_session(model, folder):
        from keras_bert_impl.serving.graphs.networks import encoder_of

        runtime = importlib.import_module(f"keras_bert_impl.serving.{kind}")
        directory = folder / kind
        if not directory.exists():
            getattr(runtime, f"export_{kind}")(model, directory)
        return runtime.Session(directory / file, encoder_of(model).config)

    return _compare_session(open_session)


FORMATS = {
    "SavedModel": lambda: _compare_saved_model("strings"),
    "C API": lambda: _compare_saved_model("c_api"),
    "SavedModel, ids only": _compare_ids,
    "ONNX Runtime": _compare_file("onnx", "model.onnx"),
    "LiteRT": _compare_file("litert", "model.tflite"),
    "OpenVINO": _compare_file("openvino", "model.xml"),
}


def _export_case(case, folder, ids_only):
    from keras_bert_impl.serving import export_saved_model

    directory = folder / ("ids" if ids_only else "strings")
    if not directory.exists():
        export_saved_model(case.signatures, directory, ids_only)
    return directory


# === Inputs ===


def _make_slices(count):
    """Returns, for each batch size, the slices of a given number of rows."""
    from matrix_models import BATCH_SIZES

    return [[slice(i, i + size) for i in range(0, count, size)] for size in BATCH_SIZES]


def _tokenize_case(case):
    """Returns the int32 features of all texts, with one row for each window."""
    import tensorflow as tf

    texts = map(tf.constant, case.inputs.values())
    features = {name: rows.numpy() for name, rows in case.signatures.tokenize(*texts).items()}
    if "num_windows" not in features:
        return features
    is_window = features["padding_mask"].any(axis=-1)
    return {name: rows[is_window] for name, rows in features.items() if rows.ndim == 3}


def _cut(features, part):
    """Returns a slice of features, truncated to the longest row of the slice."""
    longest = features["padding_mask"][part].sum(axis=-1).max()
    return {name: rows[part][..., :longest] for name, rows in features.items()}


def _compute_expected(case, features):
    """Returns the expected outputs of the signature `ids`, computed by the model itself."""
    import matrix_models as models

    model = case.model
    if "word_mask" in features:  # every word starts with a token, and every text is a single row
        return [{"scores": scores} for scores in model.predict(case.inputs["text"], verbose=0)]
    if isinstance(model, models.TokenClassifier):
        scores = model.predict(features, verbose=0)
        counts = features["padding_mask"].sum(axis=-1)
        return [{"scores": row[:count]} for row, count in zip(scores, counts)]
    if isinstance(model, models.QuestionAnswerer):
        logits = model.predict(features, verbose=0)
        counts = features["padding_mask"].sum(axis=-1)
        names = ("start_logits", "end_logits")
        return [dict(zip(names, row[:, :count])) for row, count in zip(logits, counts)]
    return case.reference(*case.asked)


def _select_words(row, mask):
    """Returns the scores of the first tokens of words."""
    return {"scores": [row["scores"][index] for index in np.flatnonzero(mask)]}


def _measure_difference(model, session, features):
    """Returns the largest difference between predictions from the outputs of two networks."""
    from keras_bert_impl.serving.graphs.networks import network_of

    received, expected = session(features), network_of(model).outputs_of_model(features)
    mask, maxima = features["padding_mask"].astype(bool), []
    for name, outputs in expected.items():
        pair = [np.asarray(_compute_scores(model, array)) for array in (outputs, received[name])]
        if pair[0].shape[:2] == mask.shape:  # per-token outputs
            pair = [array[mask] for array in pair]
        maxima.append(np.abs(pair[0].astype("float64") - pair[1]).max())
    return float(np.max(maxima))


def _compute_scores(model, outputs):
    import matrix_models as models

    if isinstance(model, models.MaskedLM):
        return models.keras.ops.softmax(outputs)
    if isinstance(model, (models.Encoder, models.QuestionAnswerer)):
        return outputs
    return model.scores(outputs)


if __name__ == "__main__":
    main()
