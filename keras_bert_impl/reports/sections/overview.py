"""Sections of every run: settings, data, learning curves, and what to do with the model."""

import numbers
import shlex
from typing import Any

from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Section, number
from keras_bert_impl.reports.run_files import Run
from keras_bert_impl.tasks.data.labels import join_names

# Of a report line: not metrics of the model.
_NOT_CURVES = {"step", "epoch", "seconds", "seconds_left"}
_HELD_OUT = "val_"
_MOST_CLASSES = 30  # of a chart
_SETS = {"train": "training", "dev": "development"}


def settings_section(run: Run) -> Section:
    """Returns the settings that were chosen, and the others hidden."""
    chosen = {k: v for k, v in run.settings.items() if v not in (None, False, "", [], {})}
    others = {k: v for k, v in run.settings.items() if k not in chosen}
    html = page.table(["setting", "value"], [[k, _value(v)] for k, v in chosen.items()])
    if others:
        rows = [[key, _value(value)] for key, value in others.items()]
        html += page.details(
            f"{len(others)} settings that are off", page.table(["setting", "value"], rows)
        )
    return Section("Settings", html)


def _value(value):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def data_section(run: Run) -> Section | None:
    """Returns what the run was trained and scored on; None if `data.json` says nothing."""
    summary = _mapping(run.data, "summary")
    sets = {name: _mapping(run.data, name) for name in _SETS if _mapping(run.data, name)}
    if not (summary or sets):
        return None
    rows = [
        [_SETS[name], str(of_set.get("source", "")), summary.get(f"{name}_rows", "")]
        for name, of_set in sets.items()
    ]
    html = page.table(["", "source", "rows"], rows)
    lengths = _numbers(summary, "lengths")
    if lengths:
        shown = ", ".join(f"{_percentile(key)} {number(n)}" for key, n in lengths.items())
        share = summary.get("truncated")
        cut = f"; {share:.1%} of the rows are truncated" if isinstance(share, float) else ""
        html += page.paragraph(f"Tokens of a row: {shown}{cut}.")
    html += "".join(page.paragraph(f"Warning: {one}") for one in _texts(summary))
    drawings = []
    for name in sets:
        counts = _numbers(summary, f"{name}_labels")
        if counts and summary.get("labels") != "numbers" and len(counts) <= _MOST_CLASSES:
            title = f"Labels of the {_SETS[name]} set"
            drawings.append(
                charts.bars(f"classes-{name}", title, [*counts], [*counts.values()], "")
            )
    return Section("Data", html + page.charts(drawings), drawings)


def _percentile(key):
    return f"p{key}" if str(key).isdigit() else str(key)


def _mapping(content: dict[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def _numbers(content: dict[str, Any], name: str) -> dict[str, float]:
    return {k: v for k, v in _mapping(content, name).items() if isinstance(v, (int, float))}


def _texts(summary):
    found = summary.get("warnings")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def curves_section(runs: list[Run]) -> Section | None:
    """Returns the learning curves of a run, or those of several runs over each other."""
    names: dict[str, None] = {}
    for run in runs:
        for line in run.metrics:
            names |= dict.fromkeys(
                k.removeprefix(_HELD_OUT) for k, v in line.items() if _is_curve(k, v)
            )
    drawings = {name: _curve(runs, name) for name in names}
    if not drawings:
        return None
    # Metrics that are measured on held-out examples, too; in a run without any, the losses.
    held_out = {key.removeprefix(_HELD_OUT) for r in runs for line in r.metrics for key in line
                if key.startswith(_HELD_OUT)}  # fmt: skip
    first = [
        drawings[name] for name in names if name in held_out or (not held_out and "loss" in name)
    ]
    others = [drawing for drawing in drawings.values() if drawing not in first]
    html = page.charts(first)
    if others:
        html += page.details("learning rate, speed and other curves", page.charts(others))
    return Section("Learning curves", html, list(drawings.values()))


def _curve(runs, name):
    series = [one for n, run in enumerate(runs) for one in _series(run, name, n, len(runs) > 1)]
    title = name.replace("_", " ")
    axes = charts.Axis("steps"), charts.Axis("")
    return charts.curves(f"curve-{name}", title[0].upper() + title[1:], series, *axes)


def _is_curve(key, value):
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and key not in _NOT_CURVES


def _series(run, name, position, is_one_of_several):
    """Yields the training and the held-out curve; of several runs, held-out if there is one."""
    color = charts.SERIES[position % len(charts.SERIES)]
    for key, label, other in ((name, "training", color), (_HELD_OUT + name, "held out", "s1")):
        lines = [line for line in run.metrics if _is_curve(key, line.get(key))]
        has_held_out = any(_HELD_OUT + name in line for line in run.metrics)
        if not lines or (is_one_of_several and key == name and has_held_out):
            continue
        xs, ys = [line["step"] for line in lines], [line[key] for line in lines]
        if is_one_of_several:
            yield charts.Series(run.name, xs, ys, color)
        else:
            yield charts.Series(label, xs, ys, other)


# === Use ===


def use_section(run: Run) -> Section | None:
    """Returns lines that load, export, predict with and repeat the run; None without a model."""
    if not (run.path / "model").is_dir():
        return None
    if "records" in run.settings or run.model_class is None:
        load = f"from keras_bert_impl import Encoder\n\nEncoder.from_pretrained({_model(run)!r})"
        return Section("Use it", page.code(load))
    load = (
        "from keras_bert_impl import load_tuned\n\n"
        f"model = load_tuned({str(run.path)!r})\nmodel.predict([...])"
    )
    path, exported = shlex.quote(str(run.path)), shlex.quote(f"exported/{run.name}")
    shell = (
        f"keras-bert predict --model {path} --input texts.txt\n"
        f"keras-bert export --model {path} --out {exported}\n"
        f"keras-bert serve {exported}"
    )
    html = f"<h3>In Python</h3>{page.code(load)}<h3>On the command line</h3>{page.code(shell)}"
    html += f"<h3>Repeat it</h3>{page.code(_again(run))}"
    if not _mapping(run.data, "read_with"):
        html += page.paragraph("Add the columns of the text and the label, as in the first run.")
    return Section("Use it", html)


def _model(run):
    return str(run.path / "model")


def _again(run):
    """Returns the command that trains once more, with the settings that are not off."""
    settings = {k: v for k, v in run.settings.items() if v not in (None, False, "", [], {})}
    words = ["keras-bert", "finetune", "--model", settings.pop("model", "MODEL")]
    options = _mapping(run.data, "read_with") or {
        name: _mapping(run.data, name).get("source") for name in _SETS
    }
    for name, value in options.items():
        if isinstance(value, list):
            value = join_names(value)
        if name != "seed" and value not in (None, False, ""):  # the seed is a setting
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    words += ["--out", f"{run.path}-again"]
    for name, value in settings.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return shlex.join(map(str, words))
