"""Every tool around a model, over every family and dtype: nothing fails, nothing is not a number.

The quick tests run the frequent tools on each family once, in one of the dtypes; the slow ones run
all tools on every family in every dtype.
"""

import numpy as np
import pytest
import tensorflow as tf
import yaml

from keras_bert_impl import (
    Adapter,
    FeatureTagger,
    MaskedLM,
    MultipleChoice,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    TokenClassifier,
    attention_map,
    attribute,
    finetune,
    load_tuned,
    look,
    save_tuned,
    student_of,
    write_report,
)
from keras_bert_impl.cli.main import main
from keras_bert_impl.data.tables.examples import Examples
from keras_bert_impl.reports.attribution.methods import METHODS
from keras_bert_impl.reports.look_page import text_attention
from keras_bert_impl.utils.errors import InputError
from tests.helpers import randomize
from tests.serving.network_models import ARCHITECTURES
from tests.tasks import helpers

_LONGFORMER = {"num_segments": 1, "window": 2, "max_global_tokens": 8, "position_offset": 1}
FAMILIES = {
    name: ARCHITECTURES[name] | {"architecture": name}
    for name in ("bert", "roberta", "albert", "electra", "distilbert", "flaubert", "modernbert")
} | {"longformer": _LONGFORMER | {"architecture": "longformer"}}
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16", "bfloat16")
# Rounding of the compute dtype, in a network of a few layers whose outputs are of order 1.
ROUNDING = {"float32": 1e-5, "mixed_bfloat16": 0.1, "mixed_float16": 0.02, "bfloat16": 0.1}
SHARED_LAYERS = ("albert", "modernbert")  # or layers of two kinds, as in the latter
TOKENIZER = helpers.tokenizer()
TEXTS, LABELS = helpers.examples(count=12)
PAIR = ("what is", "the film is good")


def settings_of(family):
    return {"num_layers": 2, **FAMILIES[family]}


def encoder(family, dtype):
    model = helpers.encoder(dtype=dtype, dropout=0.0, **settings_of(family))
    randomize(model, scale=0.05)
    return model


def classifier(family, dtype, **arguments):
    return TextClassifier(
        encoder(family, dtype), TOKENIZER, labels=["negative", "positive"], **arguments
    )


def answerer(family, dtype):
    return QuestionAnswerer(encoder(family, dtype), TOKENIZER, max_length=32, max_question_length=8)


def saved(family, folder):
    model = classifier(family, "float32")
    model.save_pretrained(folder)
    return folder


def assert_probabilities(model):
    scores = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-3)
    return scores


# === Quick tools ===


def attributes(family, dtype, folder):
    model = classifier(family, dtype)
    for method in METHODS:
        result = attribute(model, "good film not dull", target="positive", method=method, steps=24)
        scores = np.array([word.score for word in result.words])
        assert np.isfinite(scores).all() and np.abs(scores).max() > 0
        if method == "integrated_gradients":
            size = np.abs(scores).sum() + abs(result.output) + abs(result.baseline)
            # The ReLU of DistilBERT's head has kinks, where quadrature converges slowly.
            assert abs(result.gap) <= 1e-3 + max(ROUNDING[dtype], 0.01) * size


def looks(family, dtype, folder):
    base = encoder(family, dtype)
    for model, text in (
        (MaskedLM(base, TOKENIZER), PAIR),
        (TextEmbedder(base, TOKENIZER, prompts={"q": "what "}, default_prompt_name="q"), "film"),
    ):
        look(model, text, folder / "look.html")
        attention = text_attention(model, text)
        np.testing.assert_allclose(attention.weights.sum(axis=-1), 1, atol=0.02)
    assert attention.tokens[1:3] == ["what", "film"]
    attention_map(attention.tokens, attention.weights[0], folder / "map.png")


def fills_and_embeds(family, dtype, folder):
    model = MaskedLM(encoder(family, dtype), TOKENIZER)
    [fillings] = model.fill("good [MASK] film")
    assert 0 < sum(filling.score for filling in fillings) <= 1 + 1e-3
    assert 1 < model.pseudo_perplexity(["good film", "bad"]).perplexity < 1e3
    embedder = TextEmbedder(model.encoder, TOKENIZER)
    vectors = embedder.encode(["good film", "bad"])
    assert vectors.dtype == np.float32 and np.isfinite(vectors).all()
    assert -1.001 <= embedder.similarity("good", "bad")[0, 0] <= 1.001
    model.save_pretrained(folder / "model")
    card = (folder / "model" / "README.md").read_text()
    assert family in yaml.safe_load(card.split("---\n")[1])["tags"]


QUICK = (attributes, looks, fills_and_embeds)


@pytest.mark.parametrize("number, family", list(enumerate(FAMILIES)))
@pytest.mark.parametrize("tool", QUICK)
def test_each_family_in_one_dtype(tool, number, family, tmp_path):
    tool(family, DTYPES[(number + QUICK.index(tool)) % len(DTYPES)], tmp_path)


# === Slow tools ===


def attributes_words_and_answers(family, dtype, folder):
    tagger = TokenClassifier(encoder(family, dtype), TOKENIZER, labels=["O", "B-X"])
    for model, text in ((tagger, "good film"), (answerer(family, dtype), PAIR)):
        for method in METHODS:
            words = attribute(model, text, method=method, steps=4).words
            assert np.isfinite([word.score for word in words]).all()


def looks_at_other_tasks(family, dtype, folder):
    tags = {"labels": ["O", "B-X"]}
    for model, text in (
        (classifier(family, dtype), PAIR),
        (classifier(family, dtype, long_texts="mean", max_length=16), "good film " * 40),
        (answerer(family, dtype), PAIR),
        (MultipleChoice(encoder(family, dtype), TOKENIZER), ("a film", ["good", "bad"])),
        (TokenClassifier(encoder(family, dtype), TOKENIZER, **tags), "good film"),
        (FeatureTagger(encoder(family, dtype), TOKENIZER, lstm_dim=4, **tags), "good film"),
        (TextEmbedder(encoder(family, dtype), TOKENIZER, num_layers=2), ("good", "bad film")),
    ):
        look(model, text, folder / "look.html")


def adapts(family, dtype, folder):
    base = helpers.save_base(folder / "base", **settings_of(family))
    kinds = ("lora", "houlsby", "pfeiffer", "prefix", "prompt")
    for kind in kinds[:3] if family == "longformer" else kinds:
        model = TextClassifier.from_pretrained(
            base, labels=["negative", "positive"], dtype=dtype, adapter=Adapter(kind, size=2)
        )
        model.fit(TEXTS, LABELS, verbose=0)
        before = assert_probabilities(model)
        save_tuned(model, folder / kind, base)
        after = assert_probabilities(load_tuned(folder / kind, dtype=dtype))
        np.testing.assert_allclose(after, before, atol=ROUNDING[dtype])
        assert attribute(model, "good film", steps=2).words
        look(model, "good film", folder / "look.html")
    command = ["merge", "--model", folder / "lora", "--out", folder / "merged"]
    assert main([*map(str, command)]) == 0
    merged = TextClassifier.from_pretrained(folder / "merged", dtype=dtype)
    whole = load_tuned(folder / "lora", dtype=dtype)
    np.testing.assert_allclose(
        assert_probabilities(merged), assert_probabilities(whole), atol=ROUNDING[dtype]
    )


def quantizes(family, dtype, folder):
    if "float16" in dtype and "bfloat16" not in dtype:
        with pytest.raises(InputError, match="Load it in float32"):
            classifier(family, dtype).quantize("int8")
        return
    for mode, error in (("int8", 0.05), ("int4", 0.5)):
        model = classifier(family, dtype)
        before = assert_probabilities(model)
        model.quantize(mode)
        after = assert_probabilities(model)
        np.testing.assert_allclose(after, before, atol=error + ROUNDING[dtype])
        method = METHODS[dtype != "float32"]
        assert attribute(model, "good film", method=method, steps=2).words
        look(model, "good film", folder / "look.html")
    model.export(folder / "exported")


def makes_students(family, dtype, folder):
    teacher = saved(family, folder / "teacher")
    if family in SHARED_LAYERS:
        with pytest.raises(InputError, match="share weights or have different kinds"):
            student_of(teacher, folder / "student", 1)
        return
    assert len(student_of(teacher, folder / "student", 1)) == 1
    assert_probabilities(TextClassifier.from_pretrained(folder / "student", dtype=dtype))


def distills_and_reports(family, dtype, folder):
    teacher, data = saved(family, folder / "teacher"), Examples(TEXTS, LABELS)
    for kind in ("soft", "tinybert"):
        if kind == "tinybert" and settings_of(family).get("window"):
            continue  # has no attention logits
        settings = {"teacher": str(teacher), "distillation": kind, "dtype": dtype, "epochs": 1}
        settings |= {"intermediate_epochs": 1} if kind == "tinybert" else {}
        run = folder / kind
        finetune(teacher, data, data, run, verbose=0, **settings)
        write_report(run, model=load_tuned(run), examples=data)
        assert "<h2" in (run / "report.html").read_text()


def exports(family, dtype, folder):
    for model in (classifier(family, dtype), MaskedLM(encoder(family, dtype), TOKENIZER)):
        model.export(folder / model.name)
        [path] = (folder / model.name).rglob("saved_model.pb")
        signature = tf.saved_model.load(str(path.parent)).signatures["serving_default"]
        assert signature.structured_outputs


def exports_networks(family, dtype, folder):
    for format in ("onnx", "litert", "openvino"):
        model = classifier(family, dtype)
        if family == "longformer":
            with pytest.raises(InputError):
                model.export(folder / format, format=format)
        else:
            model.export(folder / format, format=format, precision="int8")


SLOW = (
    *QUICK,
    attributes_words_and_answers,
    looks_at_other_tasks,
    adapts,
    quantizes,
    makes_students,
    distills_and_reports,
    exports,
    exports_networks,
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tool", SLOW)
def test_every_family_in_every_dtype(tool, family, dtype, tmp_path):
    tool(family, dtype, tmp_path)
