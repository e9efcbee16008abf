"""Several models in one SavedModel, which stores equal weights once."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.cli.main import main
from keras_bert_impl.serving import export_saved_model
from keras_bert_impl.serving.graphs.together import SeveralSignatures
from keras_bert_impl.tasks import TextClassifier, TokenClassifier
from keras_bert_impl.training.tuning import save_tuned
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import examples, save_base

TEXTS, _ = examples(count=9)
ADAPTERS = ["lora", "houlsby", "pfeiffer", "prefix", "prompt"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A base model whose encoder is much larger than an adapter, but whose graph is small."""
    return save_base(tmp_path_factory.mktemp("base"), hidden_dim=64, intermediate_dim=4096)


def tuned(base, kind, number=0, model_class=TextClassifier):
    adapter = None if kind == "head" else Adapter(kind, size=2)
    labels = [f"O{n}" for n in range(2 + number)]
    model = model_class.from_pretrained(base, labels=labels, adapter=adapter)
    draw = np.random.default_rng(number)
    for weight in model.weights:
        above = weight.path.startswith(("pooler", "classifier", "token_classifier"))
        if above or (adapter and weight.trainable):
            weight.assign(draw.normal(0, 0.3, weight.shape))
    return model


def bytes_of_weights(directory):
    return (directory / "variables" / "variables.data-00000-of-00001").stat().st_size


@pytest.mark.parametrize(
    "kinds", [["lora", "prompt"], pytest.param(ADAPTERS, marks=pytest.mark.slow)], ids=len
)
def test_adapters_answer_as_alone_and_share_the_encoder(base, tmp_path, kinds):
    models = {kind: tuned(base, kind, number) for number, kind in enumerate(kinds)}
    export_saved_model({n: model.signatures() for n, model in models.items()}, tmp_path / "all")
    served = tf.saved_model.load(str(tmp_path / "all")).signatures
    together = served["serving_default"](text=tf.constant(TEXTS))
    for name, model in models.items():
        expected = model.predict(TEXTS, verbose=0)
        alone = served[name](text=tf.constant(TEXTS))
        np.testing.assert_allclose(together[f"{name}_scores"], expected, atol=1e-5)
        np.testing.assert_allclose(alone["scores"], expected, atol=1e-5)
        labels = np.array(model.labels)[expected.argmax(-1)].tolist()
        assert [label.decode() for label in alone["label"].numpy()] == labels
    models["lora"].export(tmp_path / "one")
    assert bytes_of_weights(tmp_path / "all") < 1.2 * bytes_of_weights(tmp_path / "one")
    described = json.loads((tmp_path / "all/assets.extra/models.json").read_text())
    assert described["prompt"]["labels"] == models["prompt"].labels


def test_models_with_different_heads_compute_the_encoder_once(base, tmp_path):
    models = {f"m{number}": tuned(base, "head", number) for number in range(3)}
    export_saved_model({n: model.signatures() for n, model in models.items()}, tmp_path / "all")
    served = tf.saved_model.load(str(tmp_path / "all")).signatures["serving_default"]
    functions = served.graph.as_graph_def().library.function
    layers = {f.signature.name for f in functions if any(n.op == "Erf" for n in f.node_def)}
    calls = [
        sum(value.func.name in layers for node in f.node_def for value in node.attr.values())
        for f in functions
    ]
    assert sum(calls) == len(layers) == 1
    outputs = served(text=tf.constant(TEXTS))
    for name, model in models.items():
        expected = model.predict(TEXTS, verbose=0)
        np.testing.assert_allclose(outputs[f"{name}_scores"], expected, atol=1e-5)


def test_other_encoders_are_not_shared(base, tmp_path):
    other_base = save_base(tmp_path / "other", seed=1, hidden_dim=64, intermediate_dim=4096)
    models = {"one": tuned(base, "head"), "other": tuned(other_base, "head")}
    export_saved_model({n: model.signatures() for n, model in models.items()}, tmp_path / "all")
    served = tf.saved_model.load(str(tmp_path / "all")).signatures["serving_default"]
    for name, model in models.items():
        outputs = served(text=tf.constant(TEXTS))[f"{name}_scores"]
        np.testing.assert_allclose(outputs, model.predict(TEXTS, verbose=0), atol=1e-5)


def test_models_of_different_tasks_have_no_common_signature(base, tmp_path):
    parts = {
        "class": tuned(base, "lora").signatures(),
        "tags": tuned(base, "lora", 1, TokenClassifier).signatures(),
    }
    export_saved_model(parts, tmp_path / "all")
    served = tf.saved_model.load(str(tmp_path / "all")).signatures
    assert {"class", "class_pairs", "class_ids", "tags", "tags_ids"} <= set(served)
    assert "serving_default" not in served


def test_ids_only(base, tmp_path):
    model = tuned(base, "lora")
    export_saved_model(
        {"one": model.signatures(), "two": tuned(base, "prefix", 1).signatures()},
        tmp_path / "ids",
        ids_only=True,
    )
    served = tf.saved_model.load(str(tmp_path / "ids")).signatures
    features = {n: tf.cast(f, tf.int32) for n, f in model.tokenizer(TEXTS).items()}
    outputs = served["serving_default"](**features)["one_scores"]
    np.testing.assert_allclose(outputs, model.predict(TEXTS, verbose=0), atol=1e-5)


@pytest.mark.parametrize("name", ["a/b", "", 1])
def test_names_of_models(base, name):
    with pytest.raises(InputError, match="the name of a model may contain only"):
        SeveralSignatures({name: tuned(base, "head").signatures()})


@pytest.mark.parametrize("name", ["serving_default", "a_ids", "a_pairs"])
def test_names_of_other_signatures(base, name):
    signatures = tuned(base, "head").signatures()
    with pytest.raises(InputError, match=f"another signature is called {name}"):
        SeveralSignatures({"a": signatures, name: signatures})


def test_only_signatures_are_exported(base, tmp_path):
    model = tuned(base, "head")
    for value in ({}, model, [model.signatures()], {"a": model}):
        with pytest.raises(InputError, match=r"must be model.signatures\(\)"):
            export_saved_model(value, tmp_path / "export")
    assert not list(tmp_path.iterdir())


def test_the_command(base, tmp_path, capsys):
    for number, name in enumerate(("topic", "tone")):
        save_tuned(tuned(base, "lora", number), tmp_path / name, base)
    command = ["export", "--model", str(tmp_path / "topic"), "--with", str(tmp_path / "tone")]
    assert main([*command, "--out", str(tmp_path / "mail")]) == 0
    assert {"topic", "tone_ids"} <= set(tf.saved_model.load(str(tmp_path / "mail/1")).signatures)
    assert main([*command, str(tmp_path / "topic"), "--out", str(tmp_path / "mail")]) == 2
    assert "another model is also called topic" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path / "x"), "--format", "onnx"]) == 2
    assert "--with requires --format saved_model" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path / "x"), "--as", "encoder"]) == 2
    assert "--as cannot be combined with --with" in capsys.readouterr().err
