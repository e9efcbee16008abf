"""Names and arguments that users of other libraries type first."""

import importlib
import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl
import keras_bert_impl.models.conversion.vocabulary_augmentation
from keras_bert_impl import (
    AdamW,
    Adapter,
    CausalLM,
    Encoder,
    LongTexts,
    MaskedLM,
    NextSentencePredictor,
    QuestionAnswerer,
    TextClassifier,
    TextEmbedder,
    finetune,
    search,
)
from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.first_guesses import (
    _IMPORTS,
    GUESSES,
    first_guesses,
    import_hint,
    known_arguments,
    nearest,
)
from tests import helpers as helpers_of_all
from tests.tasks import helpers


def test_a_missing_attribute_names_the_call(monkeypatch):
    monkeypatch.setitem(GUESSES, "Thing", {"encode": "thing.tokenize(x)", "real": "-"})

    @first_guesses("Thing")
    class Thing:
        real = 3

    class Special(Thing):
        encode = 4

    assert (Thing.real, Special().encode, hasattr(Thing(), "encode")) == (3, 4, False)
    for owner in Thing, Thing():
        with pytest.raises(AttributeError, match=r"no attribute 'encode'. Write thing.tokenize\(x"):
            owner.encode
    mine = Thing()
    mine.encode = 5  # a class outside of the package
    assert mine.encode == 5
    Thing.__module__ = "keras_bert_impl.things"
    with pytest.raises(AttributeError, match=r"Write thing.tokenize\(x\)"):
        Thing().encode = 5


def test_unknown_arguments_name_the_nearest(monkeypatch):
    monkeypatch.setitem(GUESSES, "function", {"lr": "function(rate=0.1)", "rate": "-"})

    @known_arguments("function")
    def function(rate=1):
        return rate

    assert function(rate=2) == function(2) == 2
    for argument, message in {
        "lr": r"no argument 'lr'. Write function\(rate=0.1\)",
        "x": "function has no argument 'x'; available: rate",
        "rat": "no argument 'rat'; did you mean 'rate'",
    }.items():
        with pytest.raises(InputError, match=message):
            function(**{argument: 2})


KNOWN = [f"--{name}" for name in "train dev dev-split text tfds thaw labels seed seeds".split()]


@pytest.mark.parametrize(
    ("name", "names", "suggestion"),
    [
        ("--labls", KNOWN, "did you mean --labels?"),
        # The same name for commands with different options.
        ("save-steps", ["--report-every"], "write --report-every 100"),
        ("save_steps", ["checkpoint_minutes"], "write checkpoint_minutes=10."),
        ("--id2label", KNOWN, "write --labels bad good"),
        ("--load-best-model-at-end", ["--keep-best"], "write --keep-best"),
        ("--bf16", ["--dtype"], "write --dtype mixed_bfloat16"),
        # Three of many names, or all of a few.
        ("--sxd-e", KNOWN, "similar: --dev, --seed, --seeds"),
        ("--xyz", KNOWN[:2], "available: --train, --dev"),
    ],
)
def test_options_and_settings_have_a_suggestion(name, names, suggestion):
    assert nearest(name, names) == suggestion


def test_options_are_answered_by_meaning():
    assert "cross_val_score" in nearest("--folds", KNOWN)
    assert "keras-bert calibrate" in nearest("--threshold", KNOWN)


# === Encoders and task models ===

CLASSES = {
    "Tokenizer": type(helpers.tokenizer()),
    "Encoder": Encoder,
    "Optimizer": AdamW,
    "TaskModel": TextClassifier,
    "MaskedLM": MaskedLM,
    "TextEmbedder": TextEmbedder,
}


@pytest.mark.parametrize("owner", CLASSES)
def test_every_attribute_of_the_table_names_the_call(owner):
    for name, call in GUESSES[owner].items():
        with pytest.raises(AttributeError, match=re.escape(f"{name!r}. Write {call}.")):
            getattr(CLASSES[owner], name)


def _renamed(ids, mask, segments):
    names = {"token_ids": ids, "padding_mask": mask, "segment_ids": segments}
    lines = ", ".join(f'"{ours}": x["{theirs}"]' for ours, theirs in names.items())
    return re.escape(f"Write {{{lines}}}.")


def _row(*names):
    return {name: np.ones((1, 3), "int32") for name in names}


GOOGLE = _row("input_ids", "input_mask", "segment_ids")
TF_HUB = _row("input_word_ids", "input_mask", "input_type_ids")
PAIR = r"\(first_texts, second_texts\)"


def compiled(model, **arguments):
    model.compile(**arguments)
    return model


@pytest.fixture(scope="module")
def classifier():
    return helpers.classifier(dropout=0.0)


@pytest.mark.parametrize(
    "typed, line",
    [
        (lambda model: TextClassifier.from_pretrained("x", num_labels=2), "num_classes=2"),
        (lambda model: TextClassifier.from_pretrained("x", id2label={0: "a"}), r"labels=\["),
        (lambda model: TextClassifier.from_pretrained("x", nun_classes=2), "mean 'num_classes'"),
        (lambda model: TextClassifier.from_pretrained("x", tokenizer=1), r"TextClassifier\(Enc"),
        (lambda model: type(model)(model.encoder, model.tokenizer, num_labels=2), "num_classes=2"),
        (lambda model: type(model)(model.encoder, model.tokenizer, x=2), "similar: max_length"),
        (lambda model: model.compile(lr=1e-4), "learning_rate=5e-5"),
        (lambda model: Encoder("bert-base"), r"Encoder.from_pretrained\('bert-base'\)"),
        (lambda model: Encoder({"hidden_size": 4}), r"Encoder\(EncoderConfig\(...\)\)"),
        (lambda model: EncoderConfig(hidden_size=4), "did you mean 'hidden_dim'"),
        (lambda model: EncoderConfig(output_hidden_states=True), "with_outputs"),
        (lambda model: model.encoder({"input_ids": [[1]]}), r'{"token_ids": x\["input_ids"\]}'),
        (lambda model: model.encoder([[5]], attention_mask=1), '"padding_mask": attention_mask'),
        (lambda model: model.encoder(["good film"]), r"encoder\(tokenizer\(texts\)\)"),
        (lambda model: model(_row("input_ids")), 'Write {"token_ids"'),
        (lambda model: model.fit(_row("input_ids"), [0]), 'Write {"token_ids"'),
        (lambda model: model.predict(GOOGLE), _renamed(*GOOGLE)),
        (lambda model: model(TF_HUB), _renamed(*TF_HUB)),
        (lambda model: model.predict(["a"], ["b"]), PAIR),
        (lambda model: model.evaluate(["a"], [1], ["b"]), PAIR),
        (lambda model: model.fit(["a"], [1], np.array([1])), PAIR),
        (lambda model: model.tokenizer(["un"], ["a"]), r"tokenizer\(\(questions, contexts\)\)"),
        (lambda model: model.tokenizer(["un"], ["a"], length=8), f"'length' twice.*{PAIR}"),
        (lambda model: model.export("x", format="pt"), "'tf_saved_model', 'onnx', 'litert'"),
        (lambda model: model.quantize("float8"), "one of int8, int4"),
        (lambda model: setattr(model, "max_seq_length", 5), "model.max_length"),
        (
            lambda model: compiled(helpers.classifier(["a", "b", "c"]), loss="binary_crossentropy"),
            "multi_label_classification",
        ),
        (lambda model: setattr(compiled(model).optimizer, "learning_rate", 1), "with a constant"),
        (lambda model: FinetuneSettings(warmup_steps=500), "'warmup_steps'; write warmup=0.1"),
        (lambda model: PretrainSettings(totl_steps=5), "did you mean 'total_steps'"),
        (lambda model: finetune("x", [], [], "y", num_train_epochs=3), "write epochs=3"),
        (lambda model: search(1, "a", [], top_k=3), "write k=5"),
        (lambda model: Adapter("lora", r=8), "available: kind, size"),
        (lambda model: LongTexts("mean", stride=8), "mean 'doc_stride'|available: way"),
        (lambda model: MODELS["QuestionAnswerer"]().answer(question="a"), r"\[\(question, context"),
    ],
)
def test_first_guesses_at_models(typed, line, classifier):
    with pytest.raises((InputError, AttributeError, ValueError), match=line):
        typed(classifier)


def test_max_length_can_be_set():
    model = helpers.classifier(dropout=0.0, max_length=16)
    text = "good film bad the a " * 4
    before = model.predict([text], verbose=0)
    model.max_length = 4
    words = " ".join(text.split()[:2])  # and two special tokens
    np.testing.assert_allclose(model.predict([text]), model.predict([words]), atol=1e-6)
    assert np.abs(model.predict([text], verbose=0) - before).max() > 1e-4
    with pytest.raises(InputError, match="max_length must be from 3 to"):
        model.max_length = 10_000


def test_objects_of_keras_2_are_named():
    kind = type("Adam", (), {"__module__": "tf_keras.src.optimizers.adam"})
    with pytest.raises(InputError, match="It belongs to Keras 2. Unset TF_USE_LEGACY_KERAS"):
        helpers.classifier().compile(optimizer=kind())
    with pytest.raises(InputError, match="It belongs to Keras 2. Unset TF_USE_LEGACY_KERAS"):
        helpers.classifier().fit(["good"], [1], callbacks=[kind()])


def test_a_frozen_model_warns_as_keras_does():
    model = helpers.classifier()
    model.trainable = False
    model.compile(learning_rate=1e-3)
    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        model.fit(["good"], [1], verbose=0)


@pytest.mark.on_tensorflow
def test_a_model_made_outside_of_the_scope_is_named():
    strategy = helpers_of_all.mirrored(2)
    model, encoder = helpers.classifier(), helpers.encoder()
    with strategy.scope():
        with pytest.raises(InputError, match="create the whole model, including the encoder"):
            model.fit(["good"], [1], verbose=0)
        partly = TextClassifier(encoder, helpers.tokenizer(), num_classes=2)
    with pytest.raises(InputError, match="inside the scope of the strategy: with strategy.scope"):
        partly.fit(["good"], [1], verbose=0)
    model.fit(["good"], [1], verbose=0)  # outside of the scope it trains


def test_logits_of_answers_have_names():
    answerer = MODELS["QuestionAnswerer"]()
    features = answerer.tokenizer([("which word", "good film a the")])
    named = answerer(features)
    logits = answerer.predict({n: np.asarray(f) for n, f in features.items()}, verbose=0)
    width = features["token_ids"].shape[1]
    for place, name in enumerate(("start_logits", "end_logits")):
        np.testing.assert_allclose(named[name], logits[:, place, :width], atol=1e-6)


def test_quantize_is_that_of_keras(tmp_path):
    model = helpers.classifier(dropout=0.0)
    texts = helpers.examples(30)[0]
    before = model.predict(texts, verbose=0)
    model.quantize("int8")
    after = model.predict(texts, verbose=0)
    assert 0 < np.abs(after - before).max() < 0.05
    kernels = [
        layer._kernel.dtype for layer in model._flatten_layers() if hasattr(layer, "_kernel")
    ]
    assert kernels and set(kernels) == {"int8"}
    for refused in (
        lambda: model.fit(texts, [0] * 30),
        lambda: model.save_pretrained(tmp_path / "x"),
        lambda: model.save(tmp_path / "x.keras"),
    ):
        with pytest.raises(InputError, match="a quantized model .*Call export"):
            refused()


# === Every suggestion works ===

TEXTS, LABELS = helpers.examples(8)
MODELS = {
    "TextClassifier": lambda: TextClassifier(
        helpers.encoder(max_length=128), helpers.tokenizer(), num_classes=2
    ),
    "MaskedLM": lambda: MaskedLM(helpers.encoder(), helpers.tokenizer()),
    "CausalLM": lambda: CausalLM(
        helpers.encoder(causal=True, use_pooler=False, vocabulary_size=21),
        helpers.tokenizer().add_tokens(["."]),
    ),
    "QuestionAnswerer": lambda: QuestionAnswerer(helpers.encoder(), helpers.tokenizer(), 24, 8, 8),
    "NextSentencePredictor": lambda: NextSentencePredictor(helpers.encoder(), helpers.tokenizer()),
    "TextEmbedder": lambda: TextEmbedder(
        helpers.encoder(), helpers.tokenizer(), prompts={"query": "a", "document": "the"}
    ),
}
SAVED = ("TextClassifier", "MaskedLM", "CausalLM", "NextSentencePredictor")


@pytest.fixture(scope="module")
def namespace(tmp_path_factory):
    """The names in the suggestions of the table."""
    directory = tmp_path_factory.mktemp("models")
    for name in SAVED:
        MODELS[name]().save_pretrained(directory / name)
    tokenizer = helpers.tokenizer()
    data = tf.data.Dataset.from_tensor_slices((TEXTS, [0, 1] * 4)).batch(4).repeat()
    return {
        **{name: getattr(keras_bert_impl, name) for name in keras_bert_impl.__all__},
        **{"tf": tf, "keras_bert_impl": keras_bert_impl, "saved": directory, "labels": LABELS},
        **dict.fromkeys(("texts", "queries", "questions", "contexts"), TEXTS),
        **{"text": TEXTS[0], "question": TEXTS[0], "context": TEXTS[1], "batches": data},
        **{"pairs": list(zip(TEXTS, TEXTS)), "ids": tokenizer.tokenize(TEXTS[:1])[0].numpy()},
        **{"token": "good", "tokens": ["good", "bad"], "tokenizer": tokenizer},
        **{"from_pretrained": TextClassifier.from_pretrained, "encoder": helpers.encoder()},
        **{"embedder": MODELS["TextEmbedder"](), "optimizer": AdamW(1e-3)},
    }


SUGGESTIONS = sorted(
    {
        (owner.partition(".")[0], call)
        for owner, calls in GUESSES.items()
        for call in calls.values()
        if owner != "keras-bert COMMAND" and not call.startswith("`keras-bert ")
    }
    | {("imports", call) for call in _IMPORTS}
)


@pytest.mark.parametrize(("owner", "call"), SUGGESTIONS)
def test_every_suggestion_of_the_table_works(owner, call, namespace, tmp_path):
    names = dict(namespace, model=MODELS.get(owner, helpers.classifier)())
    class_name = call.partition(".")[0]
    folder = namespace["saved"] / (class_name if class_name in SAVED else "TextClassifier")
    is_written = "save_pretrained" in call or "add_tokens(name" in call
    if "add_tokens(name" in call:
        names["tokens"] = ["[E1]"]
    exec(call, names | {"name": folder, "directory": tmp_path / "new" if is_written else folder})


# === Imports ===

IMPORTED = {
    "AutoTokenizer": "Tokenizer.from_pretrained",
    "TFBertModel": "Encoder.from_pretrained",
    "RobertaBackbone": "Encoder.from_pretrained",
    "TFBertForTokenClassification": "TokenClassifier.from_pretrained",
    "FlaubertWithLMHeadModel": "MaskedLM.from_pretrained",
    "GPT2LMHeadModel": "CausalLM.from_pretrained",
    "BertConfig": "EncoderConfig.named",
    "pipeline": "TextClassifier.from_pretrained",
    "TFTrainingArguments": "model.fit",
    "read_table": "from keras_bert_impl.tasks import read_table",
    "MeanPooling": "from keras_bert_impl.layers import MeanPooling",
    "TextClasifier": "Did you mean 'TextClassifier'",
}


@pytest.mark.parametrize("name", IMPORTED)
def test_unknown_names_of_the_package_have_a_hint(name):
    with pytest.raises(ImportError, match=f"has no {name}.*{re.escape(IMPORTED[name])}"):
        exec(f"from keras_bert_impl import {name}")
    with pytest.raises(AttributeError, match=f"'{name}'.*{re.escape(IMPORTED[name])}"):
        getattr(keras_bert_impl, name)
    assert not hasattr(keras_bert_impl, name)


def test_other_names_are_left_to_python():
    assert not hasattr(keras_bert_impl, "zzz") and not hasattr(keras_bert_impl, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name 'zzz'"):
        exec("from keras_bert_impl import zzz")
    assert {name for name, _ in inspect.getmembers(keras_bert_impl)} >= {*keras_bert_impl.__all__}
    for room in ("tasks", "pretraining", "layers", "training", "tokenizers"):
        module = importlib.import_module(f"keras_bert_impl.{room}")
        for name in set(getattr(module, "__all__", ())) - set(keras_bert_impl.__all__):
            assert f"import {name}`" in import_hint("keras_bert_impl", name)
