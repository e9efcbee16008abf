"""The steps of `clean` as transforms for Apache Beam (extras `beam` and `corpus`)."""

import collections
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from keras_bert_impl.pretraining.corpus import near_duplicates, text_cleaning
from keras_bert_impl.pretraining.corpus.cleaning import Similarity
from keras_bert_impl.utils.settings import check


class CleanTexts(beam.PTransform):
    """Cleans a collection of documents; see `clean` for the steps.

    The input and the output are collections of (key, text). Keys must be unique and comparable,
    such as integers. Of several duplicates, the document with the smallest key is kept. To keep the
    first of several duplicates, as `clean` does, number the documents in their order. The counts of
    each step are Beam counters in the namespace `clean`, such as `html/removed` and
    `near_duplicates/characters`.

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
        cleaned = documents | "clean" >> beam.FlatMap(_clean, self._languages)
        repeated = (
            cleaned
            | "bands" >> beam.FlatMap(_hash_bands, self._threshold)
            | "by band" >> beam.GroupByKey()
            | "compare" >> beam.FlatMap(_find_repeats, self._threshold)
        )
        return (
            {
                "text": cleaned | beam.MapTuple(lambda key, value: (key, value[0])),
                "repeats": repeated,
            }
            | "by document" >> beam.CoGroupByKey()
            | "drop duplicates" >> beam.FlatMap(_drop_repeats)
        )


def _clean(document, languages):
    key, text = document
    cleaned, counts = text_cleaning.clean_texts([text], languages)
    _count(counts)
    for text_and_signature in cleaned:
        yield key, text_and_signature


def _hash_bands(document, threshold):
    key, (text, signature) = document
    # "Band" -1 is the hash of the whole text. It is equal for exact duplicates.
    yield (-1, near_duplicates.text_hash(text)), (key, signature)
    for band, (value,) in enumerate(near_duplicates.band_keys(signature[None], threshold)):
        yield (band, int(value)), (key, signature)


def _find_repeats(group, threshold):
    """Yields (key, step) for each duplicate among documents with an equal band."""
    (band, _), documents = group
    first, first_signature = min(documents, key=lambda document: document[0])
    for key, signature in documents:
        if key != first and band < 0:
            yield key, "duplicates"
        elif key != first and near_duplicates.similarity(first_signature, signature) >= threshold:
            yield key, "near_duplicates"


def _drop_repeats(joined):
    key, groups = joined
    (text,), repeats = groups["text"], set(groups["repeats"])
    if not repeats:
        yield key, text
        return
    step = min(repeats)  # an exact duplicate is also a near-duplicate
    _count(collections.Counter({(step, "removed"): 1, (step, "characters"): len(text)}))


def _count(counts):
    for (step, name), number in counts.items():
        Metrics.counter("clean", f"{step}/{name}").inc(number)
