"""Distillation objectives: DistilBERT's and TinyBERT's losses, against PyTorch."""

import dataclasses

import keras
import numpy as np
import pytest
import torch
import transformers
from torch.nn import functional

from keras_bert_impl.models.conversion.formats import student_of
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.objectives import Distillation, LayerDistillation, MaskedLM
from keras_bert_impl.pretraining.pretrainer import Pretrainer
from keras_bert_impl.training.optimizers.adamw import AdamW
from keras_bert_impl.utils.errors import InputError
from tests.helpers import TINY, difference, mirrored, randomize
from tests.pretraining.helpers import masked_batch

LENGTH = TINY.max_length
TEACHER = dataclasses.replace(TINY, num_layers=4, dropout=0.5, attention_dropout=0.5)
STUDENT = dataclasses.replace(TINY, dropout=0.0, attention_dropout=0.0)
NARROW = dataclasses.replace(STUDENT, hidden_dim=8, intermediate_dim=12)
OF_OBJECTIVE = {
    "distillation": (Distillation, STUDENT),
    "layer_distillation": (LayerDistillation, NARROW),
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Directory of a model with a masked-language-model head."""
    path = tmp_path_factory.mktemp("teacher")
    model = Pretrainer(Encoder(TEACHER), [MaskedLM()])
    randomize(model)
    model.save_pretrained(path)
    return path


def batch(name="distillation", rows=4, seed=0):
    """Rows, half of them padded, with unused slots; without slots for layer distillation."""
    features, labels, weights = masked_batch(TINY, rows, seed)
    if name == "layer_distillation":  # the data set masks nothing for this objective
        del features["masked_positions"]
        return features, {}, {}
    labels["masked_lm"][0, 2] = weights["masked_lm"][0, 2] = 0
    return features, labels, weights


def student(name, teacher, seed=1):
    kind, config = OF_OBJECTIVE[name]
    keras.utils.set_random_seed(seed)
    model = Pretrainer(Encoder(config), [kind(teacher)])
    randomize(model, seed)
    return model


def their_features(features):
    return {
        "input_ids": torch.tensor(features["token_ids"]).long(),
        "token_type_ids": torch.tensor(features["segment_ids"]).long(),
        "attention_mask": torch.tensor(features["example_ids"]).long(),
    }


def steps_beside(model, parameters, their_loss):
    """Takes three steps with both models and compares the losses before each."""
    # Epsilon as in the step tests: Adam amplifies rounding by at most rate / epsilon = 10.
    theirs = torch.optim.AdamW(parameters, lr=1e-2, eps=1e-3, weight_decay=0.0)
    model.compile(AdamW(1e-2, weight_decay=0.0, epsilon=1e-3))
    for step in range(3):
        data = batch(model.objectives[0].name, seed=step)
        parts = their_loss(*data)
        total = sum(factor * loss for factor, loss in parts.values())
        theirs.zero_grad()
        total.backward()
        theirs.step()
        model.reset_metrics()
        ours = model.train_on_batch(*data, return_dict=True)
        # 1e-5 as elsewhere: float32 against float64 at these widths differs by a few 1e-6.
        assert float(ours["loss"]) == pytest.approx(total.item(), rel=1e-5), step
        for name, (_, loss) in parts.items():
            assert float(ours[f"{name}_loss"]) == pytest.approx(loss.item(), rel=1e-5), name


def test_distillation_equals_distilbert(teacher, tmp_path):
    model = student("distillation", teacher)
    model.save_pretrained(tmp_path)
    small, large = (
        transformers.BertForMaskedLM.from_pretrained(path, attn_implementation="eager").double()
        for path in (tmp_path, teacher)
    )
    large.eval()

    def their_loss(features, labels, weights):
        inputs = their_features(features)
        learned = small(**inputs, output_hidden_states=True)
        with torch.no_grad():
            taught = large(**inputs, output_hidden_states=True)
        row, slot = np.nonzero(weights["masked_lm"])
        places = row, features["masked_positions"][row, slot]
        words, targets = learned.logits[places], taught.logits[places]
        hidden = torch.tensor(labels["masked_lm"][row, slot]).long()
        divergence = functional.kl_div(
            functional.log_softmax(words / 2, dim=-1),
            functional.softmax(targets / 2, dim=-1),
            reduction="batchmean",
        )
        real = inputs["attention_mask"].bool()
        states, teacher_states = (x.hidden_states[-1][real] for x in (learned, taught))
        cosine = functional.cosine_embedding_loss(states, teacher_states, torch.ones(len(states)))
        return {
            "masked_lm": (2.0, functional.cross_entropy(words, hidden)),
            "distilled_words": (5.0, 4 * divergence),
            "distilled_states": (1.0, cosine),
        }

    steps_beside(model, small.parameters(), their_loss)
    accuracies = [name for name in model.get_metrics_result() if name.endswith("accuracy")]
    assert accuracies == ["masked_lm_accuracy"]


def attention_logits(bert, states, layer):
    """Returns the softmax inputs of a `BertModel` layer: float64 [batch, heads, length, length]."""
    of_layer = bert.encoder.layer[layer].attention.self
    query, key = (
        dense(states).unflatten(-1, (TINY.num_heads, -1)).transpose(1, 2)
        for dense in (of_layer.query, of_layer.key)
    )
    return query @ key.transpose(2, 3) / query.shape[-1] ** 0.5


@pytest.mark.slow
def test_layer_distillation_equals_tinybert(teacher, tmp_path):
    model = student("layer_distillation", teacher)
    model.save_pretrained(tmp_path)
    small, large = (
        transformers.BertModel.from_pretrained(path, attn_implementation="eager").double()
        for path in (tmp_path, teacher)
    )
    large.eval()
    maps = [
        torch.tensor(np.asarray(model.get_layer(name).kernel, "float64"), requires_grad=True)
        for name in ("embedding_map", "hidden_map")
    ]

    def their_loss(features, labels, weights):
        inputs = their_features(features)
        learned, taught = (
            bert(**inputs, output_hidden_states=True).hidden_states for bert in (small, large)
        )
        real = inputs["attention_mask"].bool()
        states = sum(
            functional.mse_loss((learned[m] @ maps[m > 0])[real], taught[2 * m].detach()[real])
            for m in range(3)
        )
        # Per row, the mean over heads and pairs of real tokens.
        attention = 0.0
        for m in range(2):
            logits = attention_logits(small, learned[m], m)
            teacher_logits = attention_logits(large, taught[2 * m + 1], 2 * m + 1).detach()
            for row, count in enumerate(real.sum(1)):
                pair = [x[row, :, :count, :count] for x in (logits, teacher_logits)]
                attention += functional.mse_loss(*pair) / len(real)
        return {"distilled_layers": (1.0, states), "distilled_attention": (1.0, attention)}

    parameters = [p for name, p in small.named_parameters() if "pooler" not in name]
    steps_beside(model, [*parameters, *maps], their_loss)
    for ours, theirs in zip(("embedding_map", "hidden_map"), maps, strict=True):
        assert difference(model.get_layer(ours).kernel, theirs.detach().numpy()) < 1e-5


def test_packing_does_not_change_errors(teacher):
    model = student("layer_distillation", teacher)
    features, _, _ = batch("layer_distillation", rows=2)
    half = LENGTH // 2
    alone = {name: value.copy() for name, value in features.items()}
    alone["example_ids"][:] = np.arange(LENGTH) < half
    packed = {
        name: np.concatenate([alone[name][0, :half], alone[name][1, :half]])[None]
        for name in ("token_ids", "segment_ids", "position_ids")
    }
    packed["example_ids"] = np.repeat([[1, 2]], half, axis=1).astype("int32")
    apart, together = model(alone), model(packed)
    states = np.asarray(apart["distilled_layers"])[:, :half].reshape(1, -1)
    # Sums of squares between 1 and 10, in another order.
    assert difference(together["distilled_layers"], states) < 1e-4
    attention = np.asarray(apart["distilled_attention"]).mean(keepdims=True)
    assert difference(together["distilled_attention"], attention) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_OBJECTIVE)
def test_splitting_the_batch_changes_nothing(name, teacher):
    data = batch(name, rows=8)
    trained = []
    for replicas, accumulation_steps in ((1, 1), (2, 2)):
        with mirrored(replicas).scope():
            model = student(name, teacher)
            model.compile(
                AdamW(1e-2, epsilon=1e-3), accumulation_steps=accumulation_steps, jit_compile=False
            )
        trained.append(model)
        history = model.fit(*data[:2], sample_weight=data[2], batch_size=8, verbose=0).history
        model.first_loss = history["loss"][0]
    whole, split = trained
    assert split.first_loss == pytest.approx(whole.first_loss, rel=1e-6)
    for ours, theirs in zip(whole.get_weights(), split.get_weights(), strict=True):
        assert difference(ours, theirs) < 1e-5  # Adam amplifies rounding by at most 10


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_OBJECTIVE)
def test_teacher_variables_are_not_in_the_model(name, teacher, tmp_path):
    model = student(name, teacher)
    kind, config = OF_OBJECTIVE[name]
    head = ["masked_lm"] if name == "distillation" else []
    alone = Pretrainer(Encoder(config), [MaskedLM()] if head else [kind(teacher)])
    assert model.count_params() == alone.count_params()
    frozen = model.get_layer(f"teacher_of_{name}")
    assert frozen.variables == [] and model.variables == model.weights
    teacher_model = frozen._asked.model
    before = teacher_model.get_weights()
    data = batch(name)
    model.compile(AdamW(1e-2, weight_decay=0.1))
    model.train_on_batch(*data)
    for old, new in zip(before, teacher_model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    # The teacher has no dropout: it would change every number.
    outputs = [model(data[0], training=True) for _ in range(2)]
    keras.tree.map_structure(np.testing.assert_array_equal, *outputs)
    model.save_pretrained(tmp_path / "model")
    model.save(tmp_path / "model.keras")
    assert (tmp_path / "model.keras").stat().st_size < 1.5e6
    loaded = keras.models.load_model(tmp_path / "model.keras")
    keras.tree.map_structure(np.testing.assert_array_equal, loaded(data[0]), model(data[0]))
    encoder = Encoder.from_pretrained(tmp_path / "model")
    features = {name: data[0][name] for name in ("token_ids", "segment_ids", "position_ids")}
    received, expected = (e(features)["sequence_output"] for e in (encoder, model.encoder))
    np.testing.assert_array_equal(received, expected)


def test_copy_of_the_teacher_has_no_loss(teacher, tmp_path):
    student_of(teacher, tmp_path, layers=4)
    objectives = [Distillation(teacher), LayerDistillation(teacher)]
    model = Pretrainer.from_pretrained(tmp_path, objectives, dropout=0.0)
    assert all(
        model.get_layer(f"teacher_of_{objective.name}").variables == [] for objective in objectives
    )
    outputs = model(batch()[0])
    assert set(outputs) == {name for objective in objectives for name in objective.output_names}
    for name in set(outputs) - {"masked_lm"}:  # a cosine of 1 rounds to within a few 1e-7
        assert difference(outputs[name], np.zeros(outputs[name].shape)) < 1e-6, name


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("distillation", {"vocabulary_size": 41}, "same vocabulary, but have 41 and 40 tokens"),
        ("distillation", {"max_length": 13}, "max_length of 13 must not exceed the teacher's, 12"),
        ("distillation", {"hidden_dim": 8}, "same hidden_dim for distillation, but have 8 and 16"),
        (
            "layer_distillation",
            {"num_layers": 3},
            "layers, 4, must be a multiple of the student's, 3",
        ),
        ("layer_distillation", {"num_heads": 2}, "the student has 2, the teacher 4"),
    ],
)
def test_rejects_a_student_that_does_not_match(name, changes, message, teacher):
    kind = OF_OBJECTIVE[name][0]
    with pytest.raises(InputError, match=message):
        Pretrainer(Encoder(dataclasses.replace(STUDENT, **changes)), [kind(teacher)])


def test_rejects_an_invalid_teacher(tmp_path):
    for name in OF_OBJECTIVE:
        with pytest.raises(InputError, match=f"{name} needs a teacher"):
            Pretrainer(Encoder(STUDENT), [name])
    Encoder(STUDENT).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="cls.predictions"):
        Distillation(tmp_path)
    LayerDistillation(tmp_path)  # takes no head
