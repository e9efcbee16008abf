"""Report sections for pre-training: the records, and masked tokens with predictions."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_impl.pretraining.examples.records import MANIFEST
from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Html, Section, user_text
from keras_bert_impl.reports.run_files import Run, Subject
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.paths import without_folders
from keras_bert_impl.utils.io.reading import read_json

_EVERY = 6  # one of six tokens is masked
_MOST_TEXTS = 5
_MOST_CHARACTERS = 400


def records_section(run: Run) -> Section | None:
    """Returns the section about the pre-training records; None if the records are missing."""
    folder = run.records
    if folder is None or not (Path(folder) / MANIFEST).exists():
        return None
    try:
        manifest = read_json(Path(folder) / MANIFEST)
    except InputError as error:
        run.problems.append(str(error))
        return None
    length = manifest.get("settings", {}).get("length")
    splits = {k: v for k, v in manifest.get("splits", {}).items() if isinstance(v, dict)}
    keys = dict.fromkeys(k for v in splits.values() for k in v if isinstance(v[k], (int, float)))
    rows = [[key.replace("_", " "), *(s.get(key, "") for s in splits.values())] for key in keys]
    html = page.table(
        ["", *splits], rows, f"Records in {without_folders(folder)}, sequence length {length}"
    )
    fills = {n: _fill(split, length) for n, split in splits.items()}
    fills = {name: fill for name, fill in fills.items() if fill is not None}
    drawings = []
    if fills:
        title = "Percentage of positions that are not padding"
        drawings = [charts.bars("fill", title, [*fills], [100 * f for f in fills.values()], " %")]
    return Section("Records", html + page.charts(drawings), drawings)


def _fill(split: dict[str, Any], length: Any) -> float | None:
    rows, tokens = split.get("rows"), split.get("tokens")
    if not rows or not tokens or not length:
        return None
    return tokens / (rows * length)


def sections(subject: Subject) -> list[Section]:
    """Returns the section of masked texts with a `MaskedLM`'s predictions."""
    model = subject.model
    boxes = []
    for text in subject.examples[:_MOST_TEXTS]:
        masked, words = _mask_words(model.tokenizer, text[:_MOST_CHARACTERS])
        if not words:
            continue
        fillings = model.fill([masked], top_k=3)[0]
        rows = [
            [word, ", ".join(f"{f.token} {f.score:.1%}" for f in candidates)]
            for word, candidates in zip(words, fillings)
        ]
        lines = [
            ("text", user_text(masked)),
            ("masks", Html(page.table(["word", "predicted"], rows))),
        ]
        boxes.append(page.example(lines))
    text = f"One of {_EVERY} words is masked. The table shows the three most likely tokens."
    return [Section("Masked words", page.paragraph(text) + "".join(boxes))] if boxes else []


def _mask_words(tokenizer, text):
    """Replaces every sixth word with the mask token; returns the text and the masked words."""
    words = text.split()
    places = np.arange(_EVERY // 2, len(words), _EVERY)
    hidden = [words[place] for place in places]
    mask = tokenizer.id_to_token(tokenizer.mask_id)
    for place in places:
        words[place] = mask
    return " ".join(words), hidden
