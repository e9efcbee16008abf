"""Saving tuned weights alone, loading them onto the base model, and merging LoRA."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.cli.main import main
from keras_bert_impl.models.conversion.formats import convert
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import TextClassifier, TokenClassifier, load_tuned
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.tuning import freeze, learning_rates, save_tuned, train_biases
from keras_bert_impl.utils.errors import InputError
from tests.helpers import mirrored
from tests.tasks import helpers

TEXTS, LABELS = helpers.examples(12)
FEATURES = {name: value.numpy() for name, value in helpers.tokenizer()(TEXTS, length=12).items()}


def classifier(base, kind=None, scale=0.2, **settings):
    """Adds noise to all trainable weights, as if they had been trained."""
    adapter = kind and Adapter(kind, 3, **settings)
    model = TextClassifier.from_pretrained(base, labels=["no", "yes"], adapter=adapter)
    draw = np.random.default_rng(0)
    for weight in model.trainable_weights if kind else []:
        weight.assign(weight.numpy() + scale * draw.normal(size=weight.shape))
    return model


@pytest.fixture(scope="module")
def lora(base, tmp_path_factory):
    """A model with LoRA, and its directory."""
    model = classifier(base, "lora", dropout=0.1, alpha=5.0, projections=("key", "output"))
    directory = tmp_path_factory.mktemp("tuned") / "lora"
    save_tuned(model, directory, base)
    return model, directory


@pytest.mark.parametrize("kind", ["houlsby", "pfeiffer", "prefix", "prompt"])
def test_round_trip_is_exact(base, tmp_path, kind):
    model = classifier(base, kind)
    save_tuned(model, tmp_path / "tuned", base)
    loaded = load_tuned(tmp_path / "tuned")
    assert loaded.config == model.config and loaded.labels == ["no", "yes"]
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))
    tensors = safetensors.numpy.load_file(tmp_path / "tuned" / "adapter_model.safetensors")
    trainable = sum(np.prod(w.shape) for w in model.trainable_weights)
    assert sum(tensor.size for tensor in tensors.values()) == trainable
    with pytest.raises(InputError, match=f"cannot contain a {kind} adapter"):
        model.save_pretrained(tmp_path / "whole")


def test_lora_is_restored_for_further_tuning(base, lora):
    model, directory = lora
    loaded = TextClassifier.from_pretrained(directory)
    assert loaded.config.adapter == model.config.adapter
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))
    assert [w.path for w in loaded.trainable_weights] == [w.path for w in model.trainable_weights]
    with pytest.raises(InputError, match="already has an adapter, lora"):
        TextClassifier.from_pretrained(directory, adapter=Adapter("prefix"))


def test_lora_merges_into_an_ordinary_model(lora, tmp_path):
    model, directory = lora
    model.save_pretrained(tmp_path / "merged")
    merged = TextClassifier.from_pretrained(tmp_path / "merged")
    assert merged.config.adapter is None
    # The same sums of products of numbers of magnitude 1, in another order.
    np.testing.assert_allclose(merged(FEATURES), model(FEATURES), rtol=0, atol=1e-6)
    plain = {w.path: w.numpy() for w in classifier(directory_base(directory)).weights}
    kernels = {path for path in plain if path.startswith("layer_") and path.endswith("kernel")}
    merged = {w.path: w.numpy() for w in merged.weights}
    changed = {path for path in kernels if (merged[path] != plain[path]).any()}
    parts = ("attention/key", "output")
    assert changed == {f"layer_{i}/{part}/kernel" for i in range(2) for part in parts}


def directory_base(directory):
    config = json.loads((directory / "config.json").read_text())
    return config["keras_bert_impl"]["base"]["name"]


@pytest.mark.parametrize("way", ["bias", "head"])
def test_trained_base_weights_are_saved(base, tmp_path, way):
    model = classifier(base)
    train_biases(model.encoder) if way == "bias" else freeze(model.encoder, 2)
    for weight in model.trainable_weights:
        weight.assign(weight.numpy() + 0.1)
    save_tuned(model, tmp_path / "tuned", base)
    loaded = load_tuned(tmp_path / "tuned")
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))
    # The merged model converts like any other.
    convert(tmp_path / "tuned", tmp_path / "whole")
    np.testing.assert_array_equal(load_tuned(tmp_path / "whole")(FEATURES), model(FEATURES))


def test_a_tagger_with_a_crf(base, tmp_path):
    adapter = Adapter("lora", 2)
    model = TokenClassifier.from_pretrained(base, labels=["O", "B-X"], adapter=adapter, crf=True)
    for weight in model.trainable_weights:
        weight.assign(weight.numpy() + 0.1)
    save_tuned(model, tmp_path / "tuned", base)
    loaded = load_tuned(tmp_path / "tuned")
    assert loaded.crf
    assert {w.path for w in loaded.weights} == {w.path for w in model.weights}
    for received, expected in zip(loaded.weights, model.weights):
        np.testing.assert_array_equal(received, expected, err_msg=received.path)
    settings = json.loads((tmp_path / "tuned" / "adapter_config.json").read_text())
    assert settings["modules_to_save"] == ["classifier"]


def test_rejects_another_base(base, lora, tmp_path):
    _, directory = lora
    other_base = tmp_path / "other"
    helpers.encoder(num_layers=2, seed=1).save_pretrained(other_base)
    helpers.tokenizer().save_pretrained(other_base)
    with pytest.raises(InputError, match="the weights of .*other differ. Pass the original"):
        load_tuned(directory, base=other_base)
    with pytest.raises(
        InputError, match="differs from the tensor in .*other: the model was tuned from another"
    ):
        save_tuned(classifier(base, "lora"), tmp_path / "tuned", other_base)
    with pytest.raises(
        InputError, match="contains a whole model. Omit base, which is only for fine-tuned weights"
    ):
        load_tuned(base, base=other_base)


def test_base_may_move(base, lora, tmp_path):
    model, directory = lora
    moved, alone = tmp_path / "moved", tmp_path / "alone"
    shutil.copytree(base, moved)
    shutil.copytree(directory, alone)
    config = json.loads((alone / "config.json").read_text())
    config["keras_bert_impl"]["base"]["name"] = str(tmp_path / "gone")
    (alone / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="the base model of .*alone cannot be opened: .*gone"):
        load_tuned(alone)
    np.testing.assert_array_equal(load_tuned(alone, base=moved)(FEATURES), model(FEATURES))


def test_rejects_an_adapter_of_another_task(lora, tmp_path):
    _, directory = lora
    with pytest.raises(InputError, match="`keras-bert merge` creates a model without an adapter"):
        convert(directory, tmp_path / "whole")
    encoder = Encoder.from_pretrained(directory)
    assert encoder.config.adapter.kind == "lora"


def changed_config(config, **adapter):
    config["keras_bert_impl"]["adapter"] |= adapter


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda c: changed_config(c, size=10**9), "must have shape"),
        (lambda c: changed_config(c, projections=["query"]), "layer_0/attention/query is missing"),
        (lambda c: changed_config(c, kind="prefix"), "tensor .*prefix/keys is missing"),
        (lambda c: changed_config(c, odd=1), "config.json: adapter must be .*odd"),
        (lambda c: c["keras_bert_impl"].pop("base"), "does not name the base model"),
        (lambda c: c.pop("keras_bert_impl"), "does not name the base model"),
    ],
)
def test_damaged_settings_are_one_error(lora, tmp_path, damage, message):
    shutil.copytree(lora[1], tmp_path / "tuned")
    path = tmp_path / "tuned" / "config.json"
    config = json.loads(path.read_text())
    damage(config)
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        load_tuned(tmp_path / "tuned")


def test_damaged_tensors_are_one_error(lora, tmp_path):
    shutil.copytree(lora[1], tmp_path / "tuned")
    path = tmp_path / "tuned" / "adapter_model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    name = next(name for name in tensors if "lora_A" in name)
    safetensors.numpy.save_file(tensors | {name: tensors[name][:2]}, path)
    with pytest.raises(InputError, match="has shapes that do not match: .2, 16. and .16, 3."):
        load_tuned(tmp_path / "tuned")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="adapter_model.safetensors is damaged"):
        load_tuned(tmp_path / "tuned")


@pytest.mark.slow
def test_replicas_reach_the_same_weights(base):
    results = []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            adapter = Adapter("lora", 3)
            model = TextClassifier.from_pretrained(
                base, labels=["negative", "positive"], adapter=adapter, dropout=0.0
            )
            rates = learning_rates(model, 0.5, 2.0)
            before = {w.path: w.numpy() for w in model.weights}
            for weight in model.weights:
                if weight.path.startswith("classifier"):
                    weight.assign(np.full(weight.shape, [-0.1, 0.1], weight.dtype))
                elif weight.path.endswith("lora/a"):
                    values = np.linspace(-0.5, 0.5, np.prod(weight.shape))
                    weight.assign(values.reshape(weight.shape))
            model.compile(AdamW(1e-2, epsilon=1e-3, global_clipnorm=0.1, rates=rates), metrics=[])
        model.fit(TEXTS, LABELS, batch_size=8, epochs=2, shuffle=False, verbose=0)  # 8 and 4 texts
        after = {w.path: w.numpy() for w in model.weights}
        results.append(after)
        trainable = {w.path for w in model.trainable_weights}
        for path, value in before.items():
            assert path in trainable or (after[path] == value).all(), path
    for path in results[0]:
        # Gradients are summed in another order, which Adam with this epsilon hardly amplifies.
        np.testing.assert_allclose(results[1][path], results[0][path], atol=1e-5, err_msg=path)
        if path.endswith("lora/b"):
            assert np.abs(results[0][path]).max() > 1e-3


def test_a_whole_model_is_not_written_beside_tuned_weights(base, lora, tmp_path):
    model, _ = lora
    save_tuned(model, tmp_path / "tuned", base)
    whole = classifier(base)
    for write in (model.save_pretrained, whole.save_pretrained, whole.encoder.save_pretrained):
        with pytest.raises(InputError, match="fine-tuned weights .*, which would be loaded on top"):
            write(tmp_path / "tuned")
    command = ["merge", "--model", str(tmp_path / "tuned"), "--out"]
    assert main([*command, str(tmp_path / "tuned")]) == 2
    loaded = TextClassifier.from_pretrained(tmp_path / "tuned")
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))


def test_the_base_is_not_replaced(base, lora, tmp_path, capsys):
    model, _ = lora
    shutil.copytree(base, tmp_path / "base")
    with pytest.raises(InputError, match="contains the base model"):
        save_tuned(model, tmp_path / "base", tmp_path / "base")
    save_tuned(model, tmp_path / "tuned", tmp_path / "base")
    command = ["merge", "--model", str(tmp_path / "tuned"), "--out", str(tmp_path / "base")]
    assert main(command) == 2
    assert "contains the base model" in capsys.readouterr().err
    TextClassifier.from_pretrained(tmp_path / "tuned")
