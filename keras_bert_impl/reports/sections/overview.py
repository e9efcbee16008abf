"""Report sections for all runs: settings, data, learning curves, and use of the model."""

import json
import numbers
import shlex
from typing import Any

from keras_bert_impl.data.scores.comparison import BASELINES
from keras_bert_impl.data.tables.examples import join_names
from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Section, number
from keras_bert_impl.reports.run_files import Run
from keras_bert_impl.reports.sections.scores import score_name, without_repeated_loss
from keras_bert_impl.training.runs.reports import KEY as SCORE
from keras_bert_impl.utils.io.paths import without_folders

# Values in `metrics.jsonl` that are not metrics of the model.
_NOT_CURVES = {"step", "epoch", "seconds", "seconds_left", SCORE}
_HELD_OUT = "val_"
_MOST_CLASSES = 30  # maximum number of points in a chart
_SETS = {"train": "training", "dev": "validation"}
_PLACES = ("train", "dev", "data", "tfds")
_WIDTH = 78  # maximum characters in a line of a command
_OFF: tuple = (None, False, "", [], {})


def settings_section(run: Run) -> Section:
    """Returns the section of settings that differ from their defaults."""
    if run.changed is None:
        settings, note = {k: v for k, v in run.settings.items() if v not in _OFF}, ""
    else:
        settings, note = run.changed, "All other settings have their defaults."
    html = page.table(["setting", "value"], [[k, _format_value(v)] for k, v in settings.items()])
    return Section("Settings", html + (page.paragraph(note) if note else ""))


def _format_value(value):
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {setting}" for name, setting in value.items())
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return value if isinstance(value, (int, float)) else without_folders(str(value))


def source_of(run: Run, name: str) -> str:
    """Returns the file name of the `train` or `dev` set, or ""."""
    return without_folders(str(_read_mapping(run.data, name).get("source") or ""))


def count_of(run: Run, name: str) -> int | None:
    """Returns the number of examples in the `train` or `dev` set, or None."""
    count = _read_mapping(run.data, name).get("examples")
    return count if isinstance(count, int) else None


def is_regression(run: Run) -> bool:
    return _read_mapping(run.data, "summary").get("labels") == "numbers"


def is_of_baseline(name: str) -> bool:
    return name.partition("/")[0] in BASELINES


def verdict_section(run: Run) -> Section | None:
    """Returns the section that compares the model with baselines; None without baselines."""
    verdict = run.data.get("verdict")
    if not isinstance(verdict, dict):
        return None
    html = "".join(page.paragraph(str(line)) for line in verdict.get("sentences", ()))
    keys = [key.partition("/") for key in run.scores if is_of_baseline(key)]
    names = dict.fromkeys(name for _, _, name in keys)
    rows = [["model", *(_score(run, name) for name in names)]]
    for baseline in dict.fromkeys(prefix for prefix, _, _ in keys):
        rows.append([baseline, *(_score(run, f"{baseline}/{name}") for name in names)])
    return Section("Verdict", html + page.table(["scores of", *map(score_name, names)], rows))


def _score(run, name):
    value = run.scores.get(name)
    return page.score(value) if isinstance(value, (int, float)) else ""


def data_section(run: Run) -> Section | None:
    """Returns the section about the training and validation set; None if both are unknown."""
    summary = _read_mapping(run.data, "summary")
    sets = {name: _read_mapping(run.data, name) for name in _SETS if _read_mapping(run.data, name)}
    if not (summary or sets):
        return None
    rows = [[_SETS[name], source_of(run, name), summary.get(f"{name}_rows", "")] for name in sets]
    html = page.table(["set", "source", "examples"], rows)
    html += _describe_lengths(summary)
    html += "".join(page.paragraph(f"Warning: {warning}") for warning in _read_warnings(summary))
    drawings = []
    for name in sets:
        counts = _read_numbers(summary, f"{name}_labels")
        if counts and not is_regression(run) and len(counts) <= _MOST_CLASSES:
            title = f"Labels of the {_SETS[name]} set"
            drawings.append(
                charts.bars(f"classes-{name}", title, [*counts], [*counts.values()], "")
            )
    return Section("Data", html + page.charts(drawings), drawings)


def _describe_lengths(summary):
    lengths = _read_numbers(summary, "lengths")
    if not lengths:
        return ""
    percentiles = ", ".join(
        f"{_describe_percentile(key)} {number(n)}" for key, n in lengths.items()
    )
    text = f"Sequence length in tokens: {percentiles}."
    if isinstance(summary.get("max_length"), int):
        text += f" max_length is {summary['max_length']:,}."
    share = summary.get("truncated")
    if isinstance(share, float):
        text += f" {share:.1%} of the examples are truncated." if share else " None is truncated."
    return page.paragraph(text)


def _describe_percentile(key):
    return f"{key}% up to" if str(key).isdigit() else {"max": "longest"}.get(key, str(key))


def _read_mapping(content: dict[str, Any], name: str) -> dict[str, Any]:
    mapping = content.get(name)
    return mapping if isinstance(mapping, dict) else {}


def _read_numbers(content: dict[str, Any], name: str) -> dict[str, float]:
    return {k: v for k, v in _read_mapping(content, name).items() if isinstance(v, (int, float))}


def _read_warnings(summary):
    texts = summary.get("warnings")
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []


def curves_section(runs: list[Run]) -> Section | None:
    """Returns the learning curves of a run, or of several runs in one chart."""
    runs = [run._replace(metrics=[*_name_scores(run)]) for run in runs]
    names: dict[str, None] = {}
    for run in runs:
        for line in run.metrics:
            names |= dict.fromkeys(
                k.removeprefix(_HELD_OUT) for k, v in line.items() if _is_curve(k, v)
            )
    names = without_repeated_loss(names)
    drawings = {name: _draw_curve(runs, name) for name in names}
    if not drawings:
        return None
    # metrics that are also computed on validation examples, or the losses if there are none
    held_out = {key.removeprefix(_HELD_OUT) for r in runs for line in r.metrics for key in line
                if key.startswith(_HELD_OUT)}  # fmt: skip
    first = [
        drawings[name] for name in names if name in held_out or (not held_out and "loss" in name)
    ]
    other_drawings = [drawing for drawing in drawings.values() if drawing not in first]
    html = page.charts(first)
    if other_drawings:
        html += page.details("learning rate, speed and other curves", page.charts(other_drawings))
    return Section("Learning curves", html, list(drawings.values()))


def _name_scores(run):
    name = _HELD_OUT + next(iter(run.scores), "score")
    for line in run.metrics:
        yield {name: line[SCORE], **line} if SCORE in line else line


def _draw_curve(runs, name):
    series = [
        curve
        for n, run in enumerate(runs)
        for curve in _generate_series(run, name, n, len(runs) > 1)
    ]
    title = score_name(name)
    axes = charts.Axis("steps"), charts.Axis("")
    return charts.curves(f"curve-{name}", title[0].upper() + title[1:], series, *axes)


def _is_curve(key, value):
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and key not in _NOT_CURVES


def _generate_series(run, name, position, is_one_of_several):
    """Yields the training curve and the validation curve of a metric.

    If a chart shows several runs, each run has only one curve: the validation curve, or the
    training curve if there is no validation curve.
    """
    color = charts.SERIES[position % len(charts.SERIES)]
    for key, label, single_color in (
        (name, "training", color),
        (_HELD_OUT + name, "validation", "s1"),
    ):
        lines = [line for line in run.metrics if _is_curve(key, line.get(key))]
        has_held_out = any(_HELD_OUT + name in line for line in run.metrics)
        if not lines or (is_one_of_several and key == name and has_held_out):
            continue
        xs, ys = [line["step"] for line in lines], [line[key] for line in lines]
        if is_one_of_several:
            yield charts.Series(run.name, xs, ys, color)
        else:
            yield charts.Series(label, xs, ys, single_color)


# === Use ===

_PREDICT = "keras-bert predict --model {} --input texts.txt\n"
_USES = {
    "TextEmbedder": (
        "keras-bert embed texts.txt --model {0} --out vectors.npy\n"
        "keras-bert search 'a query' --model {0} --vectors vectors.npy\n"
    ),
    "QuestionAnswerer": _PREDICT.replace("texts.txt", "questions.json"),
    "MultipleChoice": _PREDICT.replace("texts.txt", "choices.jsonl"),
}


def use_section(run: Run) -> Section | None:
    """Returns a section with code that loads the model, uses it and repeats the run.

    Returns None if the run has no model.
    """
    if not (run.path / "model").is_dir():
        return None
    if run.records is not None or run.model_class is None:
        model = f"{run.name}/model"
        load = f"from keras_bert_impl import Encoder\n\nEncoder.from_pretrained({model!r})"
        html = f"<h3>In Python</h3>{page.code(load)}"
        if run.records is not None:
            html += f"<h3>Repeat it</h3>{page.code(_format_pretrain_command(run))}"
        return Section("Use it", html)
    load = (
        "from keras_bert_impl import load_tuned\n\n"
        f"model = load_tuned({run.name!r})\nmodel.predict([...])"
    )
    path, exported = shlex.quote(run.name), shlex.quote(f"exported/{run.name}")
    shell = _USES.get(run.model_class, _PREDICT).format(path) + (
        f"keras-bert export --model {path} --out {exported}\nkeras-bert serve {exported}"
    )
    html = f"<h3>In Python</h3>{page.code(load)}<h3>On the command line</h3>{page.code(shell)}"
    html += f"<h3>Repeat it</h3>{page.code(_format_finetune_command(run))}"
    if not _read_mapping(run.data, "read_with"):
        html += page.paragraph("Add the text and label columns that you used in this run.")
    return Section("Use it", html)


def _format_pretrain_command(run):
    settings = dict(run.changed or {})
    if isinstance(settings.get("model"), dict):
        settings["model"] = f"{run.name}/model/config.json"
    records = shlex.quote(without_folders(run.records))
    return _format_command(
        f"keras-bert pretrain {records}", {"out": f"{run.name}-again"} | settings
    )


def _format_finetune_command(run):
    settings = dict(run.changed or {})
    options = _read_mapping(run.data, "read_with")
    sources = [_read_mapping(run.data, name).get("source") for name in _SETS]
    if not options:
        options = dict(zip(_SETS, sources))
    options = {
        name: _restore_typed_path(value, sources) if name in _PLACES else value
        for name, value in options.items()
        if name != "seed" and value is not None  # the seed is always included
    }
    first_options = {"model": settings.pop("model", None) or "MODEL"} | options
    return _format_command(
        "keras-bert finetune", first_options | {"out": f"{run.name}-again"} | settings
    )


def _format_command(start, options):
    """Returns a command with its options, wrapped into lines."""
    lines = [start]
    for name, value in options.items():
        if name in ("model", "teacher", "generator") and value is not None:
            value = without_folders(str(value))
        words = _format_option(name, value)
        if len(lines[-1]) + len(words) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {words}"
    return " \\\n".join(lines)


def _format_option(name, value):
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return option if value else f"--no-{option[2:]}"
    if isinstance(value, (list, tuple)):
        value = join_names(value) if name == "labels" else f"[{','.join(map(str, value))}]"
    elif isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False)
    return f"{option} {shlex.quote('null' if value is None else str(value))}"


def _restore_typed_path(path, sources):
    """Returns a relative path unchanged, or the file name of an absolute path."""
    path = str(path)
    matches = [str(source) for source in sources if source and path.endswith(f"/{source}")]
    return max(matches, key=len, default=without_folders(path))
