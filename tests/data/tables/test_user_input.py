"""Accepted forms of text input, and how each is interpreted."""

import collections
import itertools

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from keras_bert_impl.data.tables import user_input
from keras_bert_impl.tasks import MultipleChoice, QuestionAnswerer, TextEmbedder, TokenClassifier
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import classifier, encoder, examples, tokenizer

TEXTS = ["good film", "bad film", "a joy"]
PAIRS = [("good film", "a"), ("bad film", "b"), ("a joy", "c")]


class Frame:
    """A minimal `DataFrame` with column names and access by name."""

    def __init__(self, **columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        if isinstance(name, list):
            return Frame(**{each: self._columns[each] for each in name})
        return Column(self._columns[name])

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __iter__(self):
        return iter(self.columns)


class Column(collections.UserList):
    """A minimal `Series`."""

    def to_list(self):
        return list(self.data)


SECOND = [second for _, second in PAIRS]


@pytest.mark.parametrize(
    "inputs, expected",
    [
        (TEXTS, TEXTS),
        (tuple([TEXTS, SECOND]), PAIRS),
        (PAIRS, PAIRS),
        (["good", ("a", "b"), b"bad"], ["good", ("a", "b"), b"bad"]),
        ("good film", ["good film"]),
        (("good film", "a"), [("good film", "a")]),
        (np.array(TEXTS), TEXTS),
        (np.array(TEXTS, object), TEXTS),
        (np.array(TEXTS, "S"), [text.encode() for text in TEXTS]),
        (np.array(TEXTS)[:, None], TEXTS),
        (np.array(PAIRS), PAIRS),
        (np.str_("good film"), ["good film"]),
        (np.array("good film"), ["good film"]),
        (tf.constant(TEXTS), [text.encode() for text in TEXTS]),
        (tf.constant(PAIRS), [(a.encode(), b.encode()) for a, b in PAIRS]),
        (Column(TEXTS), TEXTS),
        (Frame(text=TEXTS), TEXTS),
        (Frame(a=TEXTS, b=SECOND), PAIRS),
        (Frame(a=TEXTS, b=SECOND, label=[0, 1, 2])[["a", "b"]], PAIRS),
        ({"text": TEXTS}, TEXTS),
        ({"a": TEXTS, "b": np.array(SECOND)}, PAIRS),
        (pa.table({"sentence1": TEXTS, "sentence2": SECOND}), PAIRS),
        (Frame(premise=TEXTS, hypothesis=SECOND), PAIRS),
        ([{"text": text} for text in TEXTS], TEXTS),
        ([{"text_a": first, "text_b": second} for first, second in PAIRS], PAIRS),
        (pa.array(TEXTS), TEXTS),
        (pa.chunked_array([TEXTS[:1], TEXTS[1:]]), TEXTS),
        (pa.array(TEXTS).dictionary_encode(), TEXTS),
        (pa.table({"text": TEXTS}), TEXTS),
        (pa.table({"a": TEXTS, "b": SECOND}), PAIRS),
        (np.array(list(zip(TEXTS)), [("text", "U9")]), TEXTS),
        ({"text": TEXTS}.values().__iter__().__next__(), TEXTS),
        (collections.deque(TEXTS), TEXTS),
    ],
)
def test_accepts_texts_in_any_form(inputs, expected):
    assert user_input.as_list(inputs) == expected


def label_generator():
    yield 0


@pytest.mark.parametrize(
    "inputs, message",
    [
        (None, "expected a list"),
        (5, "expected a list"),
        (label_generator, r"expected a list.*; call it, label_generator\(\)"),
        ({"a", "b"}, "expected a list.*set"),
        ((text for text in TEXTS), r"generator.*may be infinite"),
        (itertools.cycle(TEXTS), "may be infinite"),
        (["good", None], r"text 1 is missing \(None\)"),
        (Column(["good", "bad", float("nan")]), r"text 2 is missing \(nan\)"),
        ([0.5, "good"], "text 0 must be a string. Received: float 0.5"),
        (np.zeros(3), "text 0 must be a string. Received: float"),
        (
            [["a", "b"], ["c", "d"]],
            r"text 0 is a list of length 2.*a text pair as a tuple \(first, second\)",
        ),
        ([("a", None)], "text 0: a segment is missing"),
        ([("a", "b", "c")], "text 0 is a tuple of length 3"),
        (
            [{"text": "a", "label": "x"}],
            r"columns contain the texts: 'text', 'label'.*\[row\['text'\] for row in x\]",
        ),
        ([{"text": "a"}, {"texts": "b"}], "row 1 has 'texts', but row 0 has 'text'"),
        (["a", {"text": "b"}], "text 1 is a dict with keys 'text'"),
        (Frame(review=TEXTS, kind=["x", "y", "z"]), r"\(x\['review'\], x\['kind'\]\)"),
        (np.array([["a", "b", "c"]]), r"shape \[1, 3\]"),
        (
            Frame(text=TEXTS, label=["x", "y", "z"]),
            r"columns contain the texts: 'text', 'label'.*x\['text'\]",
        ),
        (
            Frame(text=TEXTS, stars=[1, 2, 3]),
            r"which columns contain the texts: 'text', 'stars'.*x\['text'\]",
        ),
        (Frame(a=TEXTS, b=TEXTS, c=TEXTS), r"'a', 'b', 'c'. Pass .*\(x\['a'\], x\['b'\]\)"),
        (pa.table({"text": TEXTS, "id": ["1", "2", "3"]}), "'text', 'id'"),
        ({"train": Frame(text=TEXTS), "test": Frame(text=TEXTS)}, r"tables 'train', 'test'"),
        ((["a"], ["b", "c"]), "1 first segments, but 2"),
        ((["a"], ["b"], ["c"]), "a text pair"),
    ],
)
def test_rejects_invalid_texts_with_a_hint(inputs, message):
    with pytest.raises(InputError, match=f"(?s){message}"):
        user_input.as_list(inputs)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_accepts_data_frames_of_libraries(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"a": TEXTS, "b": SECOND, "label": [0, 1, 0]})
    assert user_input.as_list(frame["a"]) == user_input.as_list(frame[["a"]]) == TEXTS
    assert user_input.as_list(frame[["a", "b"]]) == PAIRS
    with pytest.raises(InputError, match="'a', 'b', 'label'"):
        user_input.as_list(frame)
    holes = frames.DataFrame({"a": ["good", None]})
    with pytest.raises(InputError, match="text 1 is missing"):
        user_input.as_list(holes)


# === Task models ===


def test_classifier_accepts_tables_arrays_and_a_single_text():
    model = classifier()
    expected = model.predict(TEXTS, verbose=0)
    for inputs in (Frame(text=TEXTS), {"text": TEXTS}, pa.table({"text": TEXTS}), np.array(TEXTS)):
        np.testing.assert_array_equal(model.predict(inputs, verbose=0), expected)
    pairs = model.predict(PAIRS, verbose=0)
    np.testing.assert_array_equal(model.predict(np.array(PAIRS), verbose=0), pairs)
    names = model.classify(TEXTS)
    assert model.classify(TEXTS[0]) == names[0]
    assert model.classify(PAIRS[1]) == model.classify(PAIRS)[1]
    assert model.predict(TEXTS[0], verbose=0).shape == (1, 2)


def test_fits_and_evaluates_tables():
    texts, labels = examples(16)
    models = [classifier(), classifier()]
    losses = [
        model.fit(x, y, validation_data=(x, y), epochs=2, verbose=0).history["val_loss"]
        for model, x, y in zip(models, [texts, Frame(text=texts)], [labels, Column(labels)])
    ]
    assert losses[0] == losses[1]
    first, second = (model.evaluate({"text": texts}, labels, verbose=0) for model in models)
    assert first == second


def test_label_columns_are_not_used_as_second_segments():
    texts, labels = examples(8)
    for pairs in (np.array(list(zip(texts, labels)), object), list(zip(texts, labels))):
        with pytest.raises(
            InputError, match="all second segments are labels of this model. .*fit.texts, labels"
        ):
            classifier().predict(pairs, verbose=0)


def test_label_columns_use_the_label_names_of_the_model():
    texts, labels = examples(8)
    marks = {name: [float(label == name) for label in labels] for name in ("negative", "positive")}
    swapped = Frame(positive=marks["positive"], negative=marks["negative"])
    model = classifier(dropout=0.0)
    expected = model.evaluate(texts, labels, verbose=0)
    assert model.evaluate(texts, swapped, verbose=0) == expected
    several = classifier(dropout=0.0, problem_type="multi_label_classification")
    rows = [[label] for label in labels]
    assert several.evaluate(texts, swapped, verbose=0) == several.evaluate(texts, rows, verbose=0)
    with pytest.raises(InputError, match="must have the columns 'negative', 'positive'"):
        model.evaluate(texts, Frame(a=[1.0] * 8, b=[0.0] * 8), verbose=0)


def test_question_columns_are_found_by_name_in_any_order():
    model = QuestionAnswerer(encoder(), tokenizer(), max_length=24, max_question_length=8)
    expected = model.answer([("good", "a film plot")])
    row = {"context": "a film plot", "question": "good"}
    assert model.answer(row) == model.answer([row]) == expected
    chooser = MultipleChoice(encoder(), tokenizer())
    with pytest.raises(InputError, match="2 prompts, but 1 lists of endings"):
        chooser.predict((["a", "b"], [["c", "d"]]), verbose=0)


def test_each_task_finds_its_columns_by_name():
    tagger = TokenClassifier(encoder(), tokenizer(), labels=["O", "B-X"])
    words = [["good", "film"], ["bad"]]
    table = pa.table({"id": ["0", "1"], "tokens": words, "ner_tags": [[0, 1], [0]]})
    assert tagger.tag(table) == tagger.tag(words)
    assert tagger.tag("good film") == tagger.tag(["good film"])[0]
    assert tagger.entities("good film") == tagger.entities(["good film"])[0]

    answerer = QuestionAnswerer(encoder(), tokenizer(), max_length=24, max_question_length=8)
    rows = {"context": TEXTS, "question": SECOND, "id": ["1", "2", "3"]}
    assert answerer.predict(pa.table(rows), verbose=0) == answerer.predict(
        list(zip(SECOND, TEXTS)), verbose=0
    )
    question = {"question": "good", "context": "good film"}
    assert answerer.answer(("good", "good film")) == answerer.answer([("good", "good film")])[0]
    assert answerer.predict(question, verbose=0) == answerer.predict(
        [tuple(question.values())], verbose=0
    )

    chooser = MultipleChoice(encoder(), tokenizer())
    prompts, endings = ["good", "bad"], [["film", "plot"], ["joy", "a", "the"]]
    choices = list(zip(prompts, endings))
    table = pa.table({"prompt": prompts, "endings": endings, "id": [0, 1]})
    for expected, received in zip(chooser.predict(choices), chooser.predict(table)):
        np.testing.assert_array_equal(expected, received)
    assert chooser.choose(choices[1]) == chooser.choose(choices)[1]

    embedder = TextEmbedder(encoder(), tokenizer())
    vectors = embedder.encode(TEXTS)
    np.testing.assert_array_equal(embedder.encode(Frame(text=TEXTS)), vectors)
    np.testing.assert_array_equal(embedder.encode(TEXTS[0]), embedder.encode(TEXTS[:1])[0])
    np.testing.assert_array_equal(
        embedder.similarities(Frame(a=TEXTS, b=SECOND)), embedder.similarities(PAIRS)
    )


# === Batches ===


class Batches(keras.utils.PyDataset):
    """Yields batches of eight texts and labels."""

    def __init__(self, texts, labels):
        super().__init__()
        self.texts, self.labels, self.epochs = texts, labels, 0

    def __len__(self):
        return -(-len(self.texts) // 8)

    def __getitem__(self, number):
        rows = slice(8 * number, 8 * number + 8)
        return self.texts[rows], self.labels[rows]

    def on_epoch_end(self):
        self.epochs += 1


def endless(texts, labels):
    yield from itertools.cycle(zip(Batches(texts, labels)))


def batches_of(data):
    return (batch for (batch,) in data)


def test_generators_and_py_datasets_train_like_lists():
    texts, labels = examples(24)
    settings = {"epochs": 2, "shuffle": False, "verbose": 0}
    expected = classifier(dropout=0.0)
    expected.fit(texts, labels, batch_size=8, **settings)
    from_dataset, from_generator = classifier(dropout=0.0), classifier(dropout=0.0)
    data = Batches(texts, labels)
    from_dataset.fit(data, validation_data=data, **settings)
    assert data.epochs == 4  # two for training, two for validation
    from_generator.fit(batches_of(endless(texts, labels)), steps_per_epoch=3, **settings)
    for model in (from_dataset, from_generator):
        for weight, expected_weight in zip(model.get_weights(), expected.get_weights()):
            np.testing.assert_allclose(weight, expected_weight, atol=2e-6)
    scores = expected.evaluate(texts, labels, verbose=0)
    np.testing.assert_allclose(expected.evaluate(data, verbose=0), scores, rtol=1e-5)
    whole = expected.predict(texts, verbose=0)
    np.testing.assert_allclose(expected.predict(data, verbose=0), whole, atol=1e-6)
    first = expected.predict(batches_of(endless(texts, labels)), steps=2, verbose=0)
    np.testing.assert_allclose(first, whole[:16], atol=1e-6)


@pytest.mark.slow
def test_generators_work_with_models_of_several_rows():
    tagger = TokenClassifier(encoder(), tokenizer(), labels=["O", "B-X"], max_length=8)
    words = [["good"] * 12, ["bad"]]
    data = [(words, [[0] * 12, [1]])]
    tagger.fit(iter(data * 4), steps_per_epoch=2, epochs=2, verbose=0)
    for received, expected in zip(
        tagger.predict(iter(data), verbose=0), tagger.predict(words, verbose=0)
    ):
        np.testing.assert_allclose(received, expected, atol=1e-6)
    chooser = MultipleChoice(encoder(), tokenizer())
    rows = [("good", ["film", "plot"]), ("bad", ["joy", "a", "the"])]
    assert [len(row) for row in chooser.predict(iter([rows, rows]), verbose=0)] == [2, 3, 2, 3]


@pytest.mark.parametrize(
    "stream, message",
    [
        (itertools.cycle(["good"]), "expected batches. Received: one text"),
        (iter([("good", "positive")]), "must be .texts, labels."),
        (iter([(["good"], ["positive"]), (["good", None], ["positive", "negative"])]), "text 1 is"),
        (iter([]), "no batches"),
        (iter([(["good"], ["purple"])]), "batch 0: .*'purple'"),
    ],
)
def test_rejects_invalid_generators(stream, message):
    with pytest.raises(Exception, match=message):
        classifier().fit(stream, steps_per_epoch=2, verbose=0)


def test_endless_generators_need_steps():
    with pytest.raises(InputError, match="steps_per_epoch"):
        classifier().fit(batches_of(endless(*examples(16))), verbose=0)
    with pytest.raises(InputError, match="For text pairs, yield"):
        classifier().predict(iter([(["good"], ["bad"])]), verbose=0)


# === PyTorch ===


def test_data_loaders_of_pytorch_train_like_lists():
    import torch

    texts, labels = examples(24)
    batches = [texts[i : i + 8] for i in range(0, 24, 8)]
    losses = []
    for source in ("lists", "loader"):
        model = classifier(dropout=0.0)
        model.compile(keras.optimizers.SGD(0.1))
        if source == "loader":
            loader = torch.utils.data.DataLoader(list(zip(texts, labels)), batch_size=8)
            losses.append(model.fit(loader, epochs=2, verbose=0).history["loss"])
            np.testing.assert_allclose(
                model.predict(loader, verbose=0), model.predict(texts, verbose=0), atol=1e-6
            )
            continue
        stream = itertools.cycle(zip(batches, [labels[i : i + 8] for i in range(0, 24, 8)]))
        history = model.fit(stream, steps_per_epoch=3, epochs=2, verbose=0).history
        losses.append(history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-6)


def test_data_loaders_may_have_class_numbers():
    import torch

    texts, labels = examples(16)
    numbers = [int(label == "positive") for label in labels]
    loader = torch.utils.data.DataLoader(list(zip(texts, numbers)), batch_size=4)
    model = classifier()
    model.fit(loader, verbose=0)
    assert set(model.evaluate(loader, verbose=0, return_dict=True)) == {"accuracy", "loss"}


# === Common mistakes ===


def test_rejects_generators_whose_batches_differ_in_their_parts():
    batches = [(["good"], ["positive"]), (["bad"], ["negative"], [1.0])]
    with pytest.raises(Exception, match="batch 1 has 3 elements, but the first one has 2"):
        classifier().fit(iter(batches), steps_per_epoch=2, verbose=0)


def test_rejects_the_row_of_a_table():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "label": ["positive", "negative", "positive"]})
    with pytest.raises(InputError, match="Pass table.iloc"):
        classifier().predict(table.iloc[0], verbose=0)
    assert classifier().predict(table["text"], verbose=0).shape == (3, 2)
    assert classifier().predict(table.iloc[0][["text"]].tolist(), verbose=0).shape == (1, 2)


def test_rejects_token_labels_that_are_shorter_than_the_rows():
    model = TokenClassifier(encoder(), tokenizer(), labels=["O", "B-X"])
    features = {"token_ids": np.full((4, 6), 5)}
    data = tf.data.Dataset.from_tensor_slices((features, np.zeros((4, 3), "int32"))).batch(2)
    with pytest.raises(InputError, match="the length of token_ids, 6. Received: 3"):
        model.fit(data, verbose=0)
