"""Report sections for embeddings: similarities, a map of the texts, and nearest neighbors."""

import numpy as np

from keras_bert_impl.data.scores.decisions import unit_length
from keras_bert_impl.data.scores.metrics import METRICS, ranks
from keras_bert_impl.reports import charts, page
from keras_bert_impl.reports.page import Section, user_text
from keras_bert_impl.reports.run_files import Subject, read_predictions
from keras_bert_impl.reports.sections.classification import shown_text
from keras_bert_impl.reports.sections.scores import proportion, resampled, scores_html
from keras_bert_impl.tasks.embedding.similarity import anchor_ranks

_MOST_TEXTS = 400
_MOST_ROWS = 15


def sections(subject: Subject) -> list[Section]:
    examples, predictions = subject.examples, _read_cosines(subject)
    task_sections = []
    if predictions is not None:
        render = _render_ranks if examples.labels is None else _render_similarities
        task_sections = render(subject, predictions)
    if subject.model is None:
        return task_sections
    texts = list(dict.fromkeys(text for row in examples.texts for text in row))[:_MOST_TEXTS]
    vectors = unit_length(subject.model.predict(texts, verbose=0))
    return [*task_sections, _map(texts, vectors), _render_neighbors(texts, vectors)]


def _read_cosines(subject):
    """Reads or computes the cosines, and the ranks of unlabeled pairs; float64 `[examples, ...]`."""
    predictions, model, examples = read_predictions(subject), subject.model, subject.examples
    if predictions is not None:
        return np.array(predictions[1], "float64")
    if model is None:
        return None
    if examples.labels is None:
        return np.column_stack(anchor_ranks(model, examples)).astype("float64")
    return np.asarray(model.similarities(examples.texts), "float64")[:, None]


def _render_ranks(subject, predictions):
    ranks = predictions[:, -1]
    scores = [
        resampled("mrr", lambda ranks: np.mean(1 / ranks), ranks),
        proportion("recall_at_1", ranks == 1),
    ]
    worst = np.argsort(-ranks, kind="stable")[:_MOST_ROWS]
    texts = subject.examples.texts
    rows = [
        [*map(user_text, texts[row][:2]), int(ranks[row]), float(predictions[row, 0])]
        for row in worst
        if ranks[row] > 1
    ]
    html = page.table(["text", "positive", "rank", "cosine"], rows, first="cell")
    if not rows:
        html = page.paragraph(f"All {len(ranks):,} positives rank first.")
    first = Section("Scores", scores_html(scores, subject.scored_as("examples")))
    return [first, Section("Worst errors", html)]


def _render_similarities(subject, predictions):
    labels, cosines = np.array(subject.examples.labels, "float64"), predictions[:, 0]
    scores = [resampled(n, METRICS[n], labels, cosines) for n in ("spearman", "pearson")]
    cloud = charts.Series("", labels, cosines)
    axes = charts.Axis("label"), charts.Axis("cosine")
    picture = charts.points("similarity", "Cosine against label", [cloud], *axes)
    differences = np.abs(ranks(labels) - ranks(cosines))
    worst = np.argsort(-differences, kind="stable")[:_MOST_ROWS]
    pairs = [
        [shown_text(subject.examples.texts[row]), float(labels[row]), float(cosines[row])]
        for row in worst
    ]
    table = scores_html(scores, subject.scored_as("pairs"))
    headings = ["pair", "label", "cosine"]
    return [
        Section("Scores", table + page.charts([picture]), [picture]),
        Section(
            "Worst errors", page.table(headings, pairs, "Ranks that differ most", first="cell")
        ),
    ]


def principal_components(vectors: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Projects vectors onto their principal components.

    Returns:
        The coordinates, float `[texts, count]`, and the fraction of the variance that each
        component explains, `[count]`.
    """
    centered = np.asarray(vectors, "float64") - np.mean(vectors, axis=0)
    left_vectors, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    total = max(float(np.sum(sizes**2)), 1e-30)
    return left_vectors[:, :count] * sizes[:count], sizes[:count] ** 2 / total


def _map(texts, vectors):
    if min(vectors.shape) < 2:
        return Section("Map", page.paragraph("There are too few texts for a map."))
    places, shares = principal_components(vectors)
    hints = [text[:100] for text in texts]
    cloud = charts.Series("", places[:, 0], places[:, 1], hints=hints)
    axes = [charts.Axis(f"component {n + 1} ({share:.1%})") for n, share in enumerate(shares)]
    picture = charts.points("map", "Map of the texts", [cloud], *axes)
    text = (
        f"{len(texts):,} texts, placed by the first two principal components of their vectors "
        f"({shares.sum():.1%} of the variance). Move the pointer over a circle to read the text."
    )
    return Section("Map", page.paragraph(text) + page.charts([picture]), [picture])


def _render_neighbors(texts, vectors):
    cosines = vectors @ vectors.T - 2 * np.eye(len(texts))
    rows = []
    for row in range(min(_MOST_ROWS, len(texts))):
        nearest = int(cosines[row].argmax())
        pair = user_text(texts[row], 200), user_text(texts[nearest], 200)
        rows.append([*pair, float(cosines[row, nearest])])
    if len(texts) < 2:
        return Section("Nearest neighbors", page.paragraph("There is only one text."))
    table = page.table(["text", "nearest of the others", "cosine"], rows, first="cell")
    return Section("Nearest neighbors", table)
