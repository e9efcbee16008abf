"""The steps of `clean` as transforms for Apache Beam (extras `beam` and `corpus`)."""

import collections
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from keras_bert_impl.io.settings import check
from keras_bert_impl.pretraining.corpus import near_duplicates, text_cleaning
from keras_bert_impl.pretraining.corpus.cleaning import Similarity


class CleanTexts(beam.PTransform):
    """Cleans a collection of documents; see `clean` for the steps.

    Elements are (key, text) before and after. Keys are unique and have an order: of several
    duplicates, the document with the smallest key stays. The result is the same as with `clean`.
    The counts of each step are Beam counters named `html/removed`, `near_duplicates/characters`
    and so on, in the namespace `clean`.

    Args:
        languages, near_duplicates: see `clean`.

    Example:
        import apache_beam as beam
        from keras_bert_impl.pretraining.corpus.beam_cleaning import CleanTexts
        with beam.Pipeline() as pipeline:
            texts = pipeline | beam.Create([(1, "A boat sails."), (2, "A boat sails.")])
            texts | CleanTexts(languages=["en"]) | beam.Values() | beam.Map(print)  # A boat sails.
    """

    def __init__(self, languages: Sequence[str] = (), near_duplicates: float = 0.8) -> None:
        super().__init__()
        self._languages = check("languages", languages, tuple[str, ...])
        self._threshold = check("near_duplicates", near_duplicates, Similarity)
        text_cleaning.check_languages(self._languages)

    def expand(self, documents: Any) -> Any:
        """Adds the steps to the pipeline."""
        cleaned = documents | "clean" >> beam.FlatMap(_clean, self._languages)
        repeated = (
            cleaned
            | "bands" >> beam.FlatMap(_bands, self._threshold)
            | "by band" >> beam.GroupByKey()
            | "compare" >> beam.FlatMap(_repeated, self._threshold)
        )
        return (
            {"text": cleaned | beam.MapTuple(lambda key, one: (key, one[0])), "repeats": repeated}
            | "by document" >> beam.CoGroupByKey()
            | "drop duplicates" >> beam.FlatMap(_distinct)
        )


def _clean(document, languages):
    """Yields (key, (text, signature)) for a document that remains."""
    key, text = document
    cleaned, counts = text_cleaning.clean_texts([text], languages)
    _count(counts)
    for one in cleaned:
        yield key, one


def _bands(document, threshold):
    """Yields ((band, its key), (key of the document, signature)); band -1 is the whole text."""
    key, (text, signature) = document
    yield (-1, near_duplicates.text_hash(text)), (key, signature)
    for band, (value,) in enumerate(near_duplicates.band_keys(signature[None], threshold)):
        yield (band, int(value)), (key, signature)


def _repeated(group, threshold):
    """Yields (key, step that removes it) for the documents that repeat the first of their band."""
    (band, _), documents = group
    first, signature = min(documents, key=lambda document: document[0])
    for key, other in documents:
        if key != first and band < 0:
            yield key, "duplicates"
        elif key != first and near_duplicates.similarity(signature, other) >= threshold:
            yield key, "near_duplicates"


def _distinct(joined):
    key, found = joined
    (text,), repeats = found["text"], set(found["repeats"])
    if not repeats:
        yield key, text
        return
    step = min(repeats)  # an exact duplicate is also a near-duplicate
    _count(collections.Counter({(step, "removed"): 1, (step, "characters"): len(text)}))


def _count(counts):
    for (step, name), number in counts.items():
        Metrics.counter("clean", f"{step}/{name}").inc(number)
