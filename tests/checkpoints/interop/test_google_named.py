"""TensorFlow 1 checkpoints against PyTorch in float64, and bit-exact round trips."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.checkpoints.interop import encoder_tensors, head_tensors, read_encoder_config
from keras_bert_impl.checkpoints.interop.google import (
    open_google_checkpoint,
    write_google_checkpoint,
)
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.training.optimizers.google_slots import load_adam_slots
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.google_models import loaded, variables_of, write_variables
from tests.checkpoints.interop.parity import batch, original_features

TOLERANCE = 1e-5  # see test_parity.py
SIZES = {
    "vocab_size": 53,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 22,
    "type_vocab_size": 2,
}
SETTINGS = {"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "initializer_range": 0.02}
SETTINGS |= {"attention_probs_dropout_prob": 0.1}
BERT = [
    ("encoder.layer.", "encoder.layer_"),
    ("classifier.weight", "output_weights"),
    ("classifier.bias", "output_bias"),
    ("qa_outputs", "cls.squad"),
]
ALBERT = [
    ("sop_classifier.classifier", "cls.seq_relationship"),
    ("predictions.bias", "cls.predictions.bias"),
    ("predictions.dense", "cls.predictions.transform.dense"),
    ("predictions.LayerNorm", "cls.predictions.transform.LayerNorm"),
    ("albert_layer_groups.", "transformer.group_"),
    ("albert_layers.", "inner_group_"),
    (".attention.LayerNorm", ".LayerNorm"),
    (".attention.dense", ".attention_1.output.dense"),
    (".attention.", ".attention_1.self."),
    (".ffn_output", ".ffn_1.intermediate.output.dense"),
    (".ffn.", ".ffn_1.intermediate.dense."),
    ("full_layer_layer_norm", "LayerNorm_1"),
    ("albert.pooler", "bert.pooler.dense"),
    ("albert.", "bert."),
]
ELECTRA = [
    ("encoder.layer.", "encoder.layer_"),
    ("discriminator_predictions.dense_prediction", "discriminator_predictions.dense_1"),
]
GENERATOR = [
    ("electra.encoder.layer.", "generator.encoder.layer_"),
    ("electra.embeddings_project", "generator.embeddings_project"),
    ("generator_lm_head.bias", "generator_predictions.bias"),
]


def original(name, seed=0, **settings):
    """Creates a `transformers` model with noise in every weight."""
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**SIZES | settings)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def variables(model, renames):
    """Returns its weights under TensorFlow 1's names; shared weights appear once."""
    arrays = variables_of(model, renames)
    copies = ("decoder", "generator_lm_head", "position_ids")
    return {name: array for name, array in arrays.items() if not any(c in name for c in copies)}


def computed(model, features):
    """Returns the float64 outputs of a `transformers` model."""
    with torch.no_grad():
        outputs = model.double()(**original_features(model, features))
    return {name: value.numpy() for name, value in outputs.items()}


def compare(received, expected, features):
    received = np.asarray(received)
    assert received.shape == expected.shape
    if received.ndim == 3:
        real = features["padding_mask"] == 1
        received, expected = received[real], expected[real]
    assert np.abs(received - expected).max() < TOLERANCE


@pytest.fixture
def bert(tmp_path):
    model = original("BertForPreTraining")
    settings = SIZES | SETTINGS
    return model, write_variables(tmp_path / "bert", variables(model, BERT), settings)


@pytest.mark.parametrize("lengths", [[1, 1], [9, 5, 3], [22, 22]], ids=str)
def test_bert(bert, lengths):
    model, path = bert
    features = batch(SIZES["vocab_size"], lengths)
    ours, source = loaded(path, "masked_lm", "next_sentence")
    received, expected = ours(features), computed(model, features)
    compare(received["masked_lm"], expected["prediction_logits"], features)
    compare(received["next_sentence"], expected["seq_relationship_logits"], features)
    expected = computed(model.bert, features)
    compare(received["sequence_output"], expected["last_hidden_state"], features)
    compare(received["pooled_output"], expected["pooler_output"], features)
    assert source.unread() == []
    assert source.config["architectures"] == ["BertForPreTraining"]


@pytest.mark.parametrize(
    ("kind", "head", "name"),
    [
        ("BertForSequenceClassification", "classifier", "logits"),
        ("BertForQuestionAnswering", "question_answerer", None),
    ],
)
def test_tuned_bert(kind, head, name, tmp_path):
    model = original(kind, **({"num_labels": 3} if name else {}))
    write_variables(tmp_path, variables(model, BERT), SIZES | SETTINGS)
    features = batch(SIZES["vocab_size"], [9, 5, 3])
    ours, source = loaded(tmp_path, head)
    expected = computed(model, features)
    if name is None:
        expected = np.stack([expected["start_logits"], expected["end_logits"]], -1)
    compare(ours(features)[head], expected if name is None else expected[name], features)
    assert source.config["architectures"] == [kind]
    assert source.config.get("num_labels", 2) == (3 if name else 2)


@pytest.mark.parametrize("groups", [1, 3])
def test_albert(groups, tmp_path):
    albert_settings = {"embedding_size": 16, "num_hidden_groups": groups, "inner_group_num": 1}
    # TensorFlow's "gelu" is the tanh approximation; see modeling.py.
    model = original("AlbertForPreTraining", hidden_act="gelu_new", **albert_settings)
    settings = SIZES | SETTINGS | albert_settings
    write_variables(tmp_path, variables(model, ALBERT), settings, "albert_config.json")
    features = batch(SIZES["vocab_size"], [9, 5, 3])
    ours, source = loaded(tmp_path, "masked_lm", "sentence_order")
    received, expected = ours(features), computed(model, features)
    compare(received["masked_lm"], expected["prediction_logits"], features)
    compare(received["sentence_order"], expected["sop_logits"], features)
    assert source.unread() == []


@pytest.fixture(scope="module")
def electra(tmp_path_factory):
    """Writes both models of one training run to one checkpoint without a configuration file."""
    sizes = {"hidden_size": 128, "num_attention_heads": 2, "embedding_size": 32}
    discriminator = original("ElectraForPreTraining", **sizes)
    small = {"hidden_size": 64, "num_attention_heads": 1, "embedding_size": 32}
    generator = original("ElectraForMaskedLM", seed=1, num_hidden_layers=2, **small)
    shared = discriminator.electra.embeddings.state_dict()
    generator.electra.embeddings.load_state_dict(shared)
    both = variables(generator, GENERATOR) | variables(discriminator, ELECTRA)
    path = tmp_path_factory.mktemp("electra_small")
    return discriminator, generator, write_variables(path, both)


def test_electra(electra):
    discriminator, generator, path = electra
    features = batch(SIZES["vocab_size"], [9, 5, 3])
    ours, source = loaded(path, "replaced_token")
    expected = computed(discriminator, features)["logits"][..., None]
    compare(ours(features)["replaced_token"], expected, features)
    assert source.unread() == []
    assert source.config["num_hidden_layers"] == 3
    ours, source = loaded(path, "masked_lm", generator=True)
    compare(ours(features)["masked_lm"], computed(generator, features)["logits"], features)
    assert source.unread() == []
    assert source.config["num_hidden_layers"] == 2


def test_reads_a_generator_with_separate_embeddings(electra, tmp_path):
    _, generator, _ = electra
    arrays = {
        name.replace("electra/embeddings/", "generator/embeddings/"): array
        for name, array in variables(generator, GENERATOR).items()
    }
    zeros = {name.replace("generator/", "electra/"): np.zeros_like(a) for name, a in arrays.items()}
    write_variables(tmp_path, zeros | arrays)
    features = batch(SIZES["vocab_size"], [9, 5, 3])
    ours, _ = loaded(tmp_path, "masked_lm", generator=True)
    compare(ours(features)["masked_lm"], computed(generator, features)["logits"], features)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_round_trip_is_exact(kind, tmp_path):
    if kind == "bert":
        theirs, settings = variables(original("BertForPreTraining"), BERT), SIZES | SETTINGS
        heads = ("masked_lm", "next_sentence")
    else:
        albert_settings = {"embedding_size": 16, "num_hidden_groups": 3, "inner_group_num": 1}
        theirs = variables(original("AlbertForPreTraining", **albert_settings), ALBERT)
        settings, heads = SIZES | SETTINGS | albert_settings, ("masked_lm", "sentence_order")
    write_variables(tmp_path / "theirs", theirs, settings, f"{kind}_config.json")
    (tmp_path / "theirs" / "vocab.txt").write_text("[PAD]\n")

    model, source = loaded(tmp_path / "theirs", *heads)
    config = read_encoder_config(source)
    names = encoder_tensors(config)
    for head in heads:
        names += head_tensors(config, head)
    values = {variable.path: np.asarray(variable) for variable in model.weights}
    tensors = {
        name.tensor: values[name.variable].T if name.transpose else values[name.variable]
        for name in names
    }
    (tmp_path / "ours").mkdir()
    write_google_checkpoint(
        tmp_path / "ours", source.config, tensors, tmp_path / "theirs" / "vocab.txt"
    )

    expected, received = (
        tf.train.load_checkpoint(str(tmp_path / name / "bert_model.ckpt"))
        for name in ("theirs", "ours")
    )
    assert expected.get_variable_to_shape_map() == received.get_variable_to_shape_map()
    assert expected.get_variable_to_dtype_map() == received.get_variable_to_dtype_map()
    for name in theirs:
        assert expected.get_tensor(name).tobytes() == received.get_tensor(name).tobytes(), name
    files = (tmp_path / name / f"{kind}_config.json" for name in ("theirs", "ours"))
    assert len({json.dumps(json.loads(file.read_text()), sort_keys=True) for file in files}) == 1
    assert (tmp_path / "ours" / "vocab.txt").read_text() == "[PAD]\n"


def test_rejects_what_google_checkpoints_cannot_express(tmp_path):
    config = {"model_type": "albert", "hidden_act": "gelu"}
    with pytest.raises(InputError, match="exact GELU"):
        write_google_checkpoint(tmp_path, config, {})
    with pytest.raises(InputError, match="'roberta'"):
        write_google_checkpoint(tmp_path, {"model_type": "roberta"}, {})
    tensors = {"cls.predictions.decoder.weight": np.zeros((2, 2), "float32")}
    with pytest.raises(InputError, match=r"cls\.predictions\.decoder\.weight of bert has no name"):
        write_google_checkpoint(tmp_path, {}, tensors)
    assert list(tmp_path.iterdir()) == []


def test_resumes_adam_from_its_slots(bert, tmp_path):
    """One step from the slots equals one of google-research/bert's `AdamWeightDecayOptimizer`."""
    model, _ = bert
    theirs = variables(model, BERT)
    random = np.random.default_rng(0)
    mean = {name: random.normal(0, 0.1, a.shape).astype("float32") for name, a in theirs.items()}
    square = {name: random.uniform(0, 0.1, a.shape).astype("float32") for name, a in theirs.items()}
    slots = {f"{name}/adam_m": array for name, array in mean.items()}
    slots |= {f"{name}/adam_v": array for name, array in square.items()}
    slots["global_step"] = np.int64(20)
    path = write_variables(tmp_path / "run", theirs | slots, SIZES | SETTINGS)

    ours, source = loaded(path)
    encoder = next(layer for layer in ours.layers if isinstance(layer, Encoder))
    assert source.unread() == sorted(n for n in source._tensors.header if n.startswith("cls."))
    _, tensors = open_google_checkpoint(path)
    optimizer = AdamW(0.01, bias_correction=False)
    assert load_adam_slots(encoder, optimizer, tensors, encoder_tensors(encoder.config)) == []
    assert int(optimizer.iterations) == 20
    assert (optimizer.steps.numpy() == 20).all()

    some = AdamW(0.01, use_ema=True)
    names = encoder_tensors(encoder.config)
    without = load_adam_slots(encoder, some, tensors, names[:-1])
    assert without == [names[-1].variable]
    steps = zip(encoder.trainable_variables, some.steps.numpy(), strict=True)
    assert {variable.path for variable, count in steps if count != 20} == set(without)
    # The averages start at the weights, not at zero.
    for variable, average in zip(
        encoder.trainable_variables, some._model_variables_moving_average, strict=True
    ):
        np.testing.assert_array_equal(average.numpy(), variable.numpy())

    weights = encoder.trainable_variables
    gradients = [random.normal(0, 1, weight.shape).astype("float32") for weight in weights]
    before = [np.asarray(weight, "float64") for weight in weights]
    optimizer.apply(gradients)
    google = {
        "layer_2/attention/query/kernel": "bert/encoder/layer_2/attention/self/query/kernel",
        "layer_0/output/bias": "bert/encoder/layer_0/output/dense/bias",
        "embeddings/token_embeddings": "bert/embeddings/word_embeddings",
        "pooler/dense/kernel": "bert/pooler/dense/kernel",
    }
    for index, variable in enumerate(weights):
        if variable.path not in google:
            continue
        name, gradient = google.pop(variable.path), gradients[index].astype("float64")
        m = 0.9 * mean[name] + 0.1 * gradient
        v = 0.999 * square[name] + 0.001 * gradient**2
        decay = 0.0 if name.endswith("bias") else 0.01
        expected = before[index] - 0.01 * (m / (np.sqrt(v) + 1e-6) + decay * before[index])
        # Weights below 1 and steps of about 0.05: a few float32 roundings of 6e-8.
        assert np.abs(np.asarray(variable) - expected).max() < 1e-6
    assert not google


def test_rejects_checkpoints_without_slots(bert):
    _, path = bert
    _, tensors = open_google_checkpoint(path)
    assert tensors.global_step is None
    assert tensors.read_slot("bert.pooler.dense.bias", "adam_m") is None
    dense = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(InputError, match="no adam_m, adam_v and global_step"):
        load_adam_slots(dense, AdamW(), tensors, [])
