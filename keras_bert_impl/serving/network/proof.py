"""Compares an exported network with its model."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.models.encoder_layers import check_values
from keras_bert_impl.serving.graphs.networks import encoder_of, input_names, network_of

SAMPLES = [
    "It is a truth universally acknowledged.",
    "Ada wrote the first program in 1843, for a machine that was never built!",
    "Zürich, 東京, naïve café: words that few vocabularies have.",
    "yes",
]


def features_of(model: keras.Model, texts: list[str] | None = None) -> dict[str, np.ndarray]:
    """Returns features of texts. If the model has no tokenizer, the token ids are random."""
    texts = texts or SAMPLES
    if not hasattr(model, "tokenizer"):
        draw, shape = np.random.default_rng(0), (len(texts), min(16, model.config.max_length))
        ids = draw.integers(0, model.config.vocabulary_size, shape).astype("int32")
        return {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
    length = getattr(model, "max_length", encoder_of(model).config.max_length)
    features = {n: np.asarray(f)[:, :length] for n, f in model.tokenizer(texts).items()}
    groups = [np.newaxis] * len(network_of(model).groups)
    return {name: feature[(*groups, ...)] for name, feature in features.items()}


def as_inputs(features: dict, config: EncoderConfig, dtype: str = "int64") -> dict[str, np.ndarray]:
    check_values(features, config)
    names = input_names(config)
    return {name: np.asarray(features[ours], dtype) for name, ours in names.items()}


@contextlib.contextmanager
def answered_by(session: Callable, model: keras.Model) -> Iterator[None]:
    """Context manager in which `model.predict` runs the exported network."""
    network = network_of(model)

    def predict_batches(data, **kwargs):
        features = (keras.utils.unpack_x_y_sample_weight(batch)[0] for batch in data)
        outputs = (network.as_model_outputs(session, feature) for feature in features)
        return np.concatenate([model.scores(output) for output in outputs])

    model.predict_batches = predict_batches
    try:
        yield
    finally:
        del model.predict_batches


def relative_difference(
    received: dict[str, np.ndarray], expected: dict[str, np.ndarray], padding_mask: np.ndarray
) -> float:
    """Returns the relative difference of the output that differs most.

    The relative difference is the root mean square (RMS) of the difference, divided by the RMS of
    the expected values.

    Positions with 0 in `padding_mask`, int `[batch, length]` or `[batch, group, length]`, are
    ignored.
    """
    mask, differences = np.asarray(padding_mask, bool), []
    for name, array in expected.items():
        received_array = received[name]
        if array.shape[:2] == mask.shape:  # This output has values per token.
            array, received_array = array[mask], received_array[mask]
        real = ~(array <= -1e8)  # excludes padding choices (-1e9), but not NaN
        distance = np.sqrt(np.mean(np.square(received_array - array)[real]))
        differences.append(distance / max(np.sqrt(np.mean(np.square(array[real]))), 1e-6))
    worst = np.max(differences)
    return float(worst) if np.isfinite(worst) else float("inf")


WARN_FROM = 0.05
_FEWEST = 20  # minimum number of texts for a meaningful comparison of neighbors
_MOST = 2000
_TIE = 1e-5  # smaller differences of similarity are rounding errors


@dataclasses.dataclass(frozen=True)
class ChangedNeighbors:
    """Texts whose nearest neighbor changes in the export.

    Attributes:
        changed: number of texts whose nearest neighbor changes.
        texts: number of compared texts.
        is_builtin: whether the texts are built-in English sentences.
    """

    changed: int
    texts: int
    is_builtin: bool

    @property
    def share(self) -> float:
        return self.changed / self.texts

    def __str__(self) -> str:
        of = "built-in English sentences" if self.is_builtin else "texts"
        return f"the nearest neighbor changes for {self.share:.1%} of {self.texts} {of}"


def changed_neighbors(
    model: Any, other: Any, texts: list[str] | None = None, session: Callable | None = None
) -> ChangedNeighbors:
    usable = [text for text in dict.fromkeys(texts or ()) if isinstance(text, str) and text.strip()]
    is_builtin = len(usable) < _FEWEST
    samples = list(_SENTENCES) if is_builtin else usable[:_MOST]
    before = _compute_similarities(model, samples)
    with contextlib.nullcontext() if session is None else answered_by(session, other):
        after = _compute_similarities(other, samples)
    rows, nearest = np.arange(len(samples)), after.argmax(axis=1)
    lost = before.max(axis=1) - before[rows, nearest]
    changed = int(np.sum(~(lost <= _TIE * np.abs(before.max(axis=1)))))
    return ChangedNeighbors(changed, len(samples), is_builtin)


def _compute_similarities(model, texts):
    """Returns the pairwise similarities of texts, float `[texts, texts]`."""
    vectors = model.encode(texts)
    similarities = np.array(model.similarity(vectors, vectors), "float64")
    np.fill_diagonal(similarities, -np.inf)
    return similarities


# Each text ends with a period or a question mark.
_SENTENCES = re.findall(
    r"\b[^.?]+[.?]",
    " ".join(
        """
        The train to the coast leaves at nine. Our flight was delayed by two hours. The bus stops in
        front of the station. She missed the last ferry of the day. Heavy rain is expected in the
        north tonight. It snowed for three days without a break. The summer was the hottest on
        record. A storm brought down trees near the river. Fry the onions in butter until they are
        golden. The soup needs more salt and a bay leaf. Bake the bread for forty minutes. He
        ordered a pizza with olives and ham. The striker scored twice in the second half. She won
        the marathon in record time. The home team lost the final on penalties. He broke his arm
        during the tennis match. The central bank raised interest rates again. Shares of the car
        maker fell by six percent. Unemployment is at its lowest in ten years. The company reported
        a loss for the quarter. The senate passed the bill by a narrow margin. Voters will elect a
        new mayor in May. The minister resigned after the scandal. Protesters demanded a change of
        the law. The patient was given antibiotics for the infection. A new vaccine protects against
        the virus. High blood pressure raises the risk of a stroke. The surgeon repaired the broken
        knee. The telescope found a planet around a distant star. Astronauts repaired the space
        station. The moon was full and very bright. A comet will pass close to the sun. Her first
        novel is set in a small village. The poem has four lines in each verse. The library lends
        books for three weeks. He reads a detective story every week. The orchestra played a
        symphony by Mahler. She learned to play the guitar at school. The singer canceled her
        concert in Berlin. The band recorded a new album. The film was too long but beautifully
        shot. The actor received an award for his role. I fell asleep in the middle of the movie.
        The series ends with a surprising twist. The program crashes when the file is empty. Sort
        the list before you search in it. The server did not answer the request. Update the library
        to its latest version. I forgot my password and cannot log in. Please send me an invoice for
        last month. My order has not arrived yet. How can I cancel my subscription? The kitchen has
        new cupboards and a large window. They rent a flat on the third floor. The roof of the old
        barn must be repaired. Our house was built a hundred years ago. The teacher explained
        fractions with an apple. Students must hand in the essay on Friday. She studies chemistry at
        the university. The exam was easier than last year. The dog barked at the postman. Cats
        sleep for most of the day. A herd of elephants crossed the road. The bird built its nest
        under the roof. The museum shows paintings from the Renaissance. He carved a horse out of
        oak. The statue was stolen from the park. Her photographs hang in a gallery in Paris. The
        war ended with a treaty in 1648. The king was buried in the cathedral. Archaeologists found
        a Roman coin. The castle was destroyed by fire. The judge sentenced him to five years in
        prison. The lawyer asked the witness two questions. Police arrested a man for theft. The
        contract was signed by both parties. The engine uses less fuel than before. The bridge
        carries forty thousand cars a day. Solar panels cover the roof of the factory. The battery
        lasts for two days. Plant the seeds two inches deep. The apple trees are in blossom. Farmers
        expect a good harvest this year. Water the tomatoes in the evening. My sister is getting
        married in June. The baby laughed for the first time. Their grandfather lives in a home. The
        twins do not look alike. He was angry because nobody listened to him. She felt lonely in the
        big city. We were happy to see our friends again. The news made everyone sad. The river
        flows into the lake from the east. They climbed the mountain in two days. The island has no
        roads. The desert is cold at night.
        """.split()
    ),
)
