"""Names and arguments that users of other libraries type first, one test case each."""

import re

import numpy as np
import pytest

import keras_bert_impl
from keras_bert_impl import AdamW, Adapter, LongTexts, finetune
from keras_bert_impl.config import EncoderConfig
from keras_bert_impl.first_guesses import GUESSES, first_guesses, known_arguments, nearest
from keras_bert_impl.io.errors import InputError
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.pretraining.settings import PretrainSettings
from keras_bert_impl.runs.settings import FinetuneSettings
from keras_bert_impl.tasks import QuestionAnswerer, TextClassifier
from tests import helpers as helpers_of_all
from tests.tasks import helpers


def test_a_name_that_a_class_has_is_left_alone(monkeypatch):
    monkeypatch.setitem(GUESSES, "Thing", {"encode": "thing.tokenize(x)", "real": "-"})

    @first_guesses("Thing")
    class Thing:
        real = 3

    class Special(Thing):
        encode = 4

    assert (Thing.real, Special().encode, hasattr(Thing(), "encode")) == (3, 4, False)
    for owner in Thing, Thing():
        with pytest.raises(
            AttributeError, match=r"no attribute 'encode'. Write thing.tokenize\(x\)"
        ):
            owner.encode


def test_unknown_arguments_name_the_nearest(monkeypatch):
    monkeypatch.setitem(GUESSES, "function", {"lr": "function(rate=0.1)", "rate": "-"})

    @known_arguments("function")
    def function(rate=1):
        return rate

    assert function(rate=2) == function(2) == 2
    with pytest.raises(InputError, match=r"no argument 'lr'. Write function\(rate=0.1\)"):
        function(lr=2)
    with pytest.raises(InputError, match="function has no argument 'x'; available: rate"):
        function(x=2)
    with pytest.raises(InputError, match="no argument 'rat'; did you mean 'rate'"):
        function(rat=2)


def test_options_are_answered_by_meaning():
    known = [f"--{name}" for name in "train dev dev-split text tfds thaw labels seed seeds".split()]
    assert "cross_val_score" in nearest("--folds", known)
    assert nearest("cv", known) == nearest("--folds", known)
    assert "keras-bert calibrate" in nearest("--threshold", known)
    assert nearest("--labls", known) == "did you mean --labels?"
    # The same name for commands with different options.
    assert nearest("save-steps", ["--report-every"]) == "write --report-every 100"
    assert nearest("save_steps", ["checkpoint_minutes"]) == "write checkpoint_minutes=10."
    # Three of many names, or all of a few.
    assert nearest("--sxd-e", known) == "similar: --dev, --seed, --seeds"
    assert nearest("--xyz", known[:2]) == "available: --train, --dev"


def test_a_missing_attribute_cannot_be_set(monkeypatch):
    monkeypatch.setitem(GUESSES, "Thing", {"encode": "thing.tokenize(x)"})

    @first_guesses("Thing")
    class Thing:
        pass

    mine = Thing()
    mine.encode = 5  # a class outside of the package
    assert mine.encode == 5
    Thing.__module__ = "keras_bert_impl.things"
    with pytest.raises(AttributeError, match=r"Write thing.tokenize\(x\)"):
        Thing().encode = 5


# === Encoders and task models ===


def _renamed(ids, mask, segments):
    lines = (
        f'"token_ids": x["{ids}"]',
        f'"padding_mask": x["{mask}"]',
        f'"segment_ids": x["{segments}"]',
    )
    return re.escape(f"Write {{{', '.join(lines)}}}.")


def _row(*names):
    return {name: np.ones((1, 3), "int32") for name in names}


GOOGLE = _row("input_ids", "input_mask", "segment_ids")
TF_HUB = _row("input_word_ids", "input_mask", "input_type_ids")


def compiled(model, **arguments):
    model.compile(**arguments)
    return model


@pytest.fixture(scope="module")
def classifier():
    return helpers.classifier(dropout=0.0)


@pytest.fixture(scope="module")
def answerer():
    return QuestionAnswerer(helpers.encoder(), helpers.tokenizer(), 24, 8, 8)


@pytest.mark.parametrize(
    "typed, line",
    [
        (lambda model: TextClassifier.from_pretrained("x", num_labels=2), "num_classes=2"),
        (lambda model: TextClassifier.from_pretrained("x", id2label={0: "a"}), r"labels=\["),
        (lambda model: model.compile(lr=1e-4), "learning_rate=5e-5"),
        (lambda model: TextClassifier.presets, "keras-bert models"),
        (lambda model: model.push_to_hub("x"), "save_pretrained"),
        (
            lambda model: Encoder("bert-base-uncased"),
            r"Encoder.from_pretrained\('bert-base-uncased'\)",
        ),
        (lambda model: Encoder({"hidden_size": 4}), r"Encoder\(EncoderConfig\(...\)\)"),
        (lambda model: Encoder.presets, "keras-bert models"),
        (lambda model: Encoder.from_preset("x"), r"Encoder.from_pretrained\(name\)"),
        (lambda model: TextClassifier.from_preset("x"), r"Write from_pretrained\(name\)"),
        (lambda model: EncoderConfig(hidden_size=4), "hidden_dim=768"),
        (
            lambda model: model.encoder({"input_ids": [[1]]}),
            r'Write {"token_ids": x\["input_ids"\]}',
        ),
        (lambda model: model({"input_ids": np.ones((1, 2), "int32")}), 'Write {"token_ids"'),
        (
            lambda model: model.fit({"input_ids": np.ones((1, 2), "int32")}, [0]),
            'Write {"token_ids"',
        ),
        (
            lambda model: model.export("x", format="pt"),
            "'tf_saved_model', 'onnx', 'litert', 'openvino', 'mediapipe'",
        ),
        (lambda model: model.quantize("float8"), "one of int8, int4"),
        (lambda model: setattr(model, "max_seq_length", 5), r"from_pretrained\(name, max_length="),
        (lambda model: model.max_seq_length, "model.max_length"),
        (lambda model: model.predict(GOOGLE), _renamed("input_ids", "input_mask", "segment_ids")),
        (lambda model: model(TF_HUB), _renamed("input_word_ids", "input_mask", "input_type_ids")),
        (
            lambda model: compiled(helpers.classifier(["a", "b", "c"]), loss="binary_crossentropy"),
            "multi_label_classification",
        ),
        (lambda model: setattr(compiled(model).optimizer, "learning_rate", 1), "with a constant"),
        (lambda model: compiled(model).optimizer.lr, "optimizer.learning_rate"),
        (lambda model: model.fit_generator([]), r"model.fit\(batches, steps_per_epoch=100\)"),
        (lambda model: TextClassifier.from_pretrained("x", nun_classes=2), "mean 'num_classes'"),
        (
            lambda model: TextClassifier(model.encoder, model.tokenizer, num_labels=2),
            "num_classes=2",
        ),
        (
            lambda model: TextClassifier(model.encoder, model.tokenizer, x=2),
            "similar: max_length",
        ),
        (lambda model: FinetuneSettings(warmup_steps=500), "'warmup_steps'; write warmup=0.1"),
        (lambda model: FinetuneSettings(lr=1e-4), "write learning_rate=5e-5"),
        (lambda model: PretrainSettings(totl_steps=5), "did you mean 'total_steps'"),
        (lambda model: finetune("x", [], [], "y", num_train_epochs=3), "write epochs=3"),
        (lambda model: Adapter("lora", r=8), "available: kind, size"),
        (lambda model: LongTexts("mean", stride=8), "mean 'doc_stride'|available: way"),
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


def test_a_constant_rate_can_be_set():
    model = compiled(helpers.classifier(), optimizer=AdamW(1e-3))
    model.optimizer.learning_rate = 1e-5
    assert float(model.optimizer.learning_rate) == pytest.approx(1e-5)


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


def test_answer_has_pairs(answerer):
    with pytest.raises(InputError, match=r"answer\(\[\(question, context\)\]\)"):
        answerer.answer(question="which word", context="good film")


def test_logits_of_answers_have_names(answerer):
    features = answerer.tokenizer([("which word", "good film a the")])
    named = answerer(features)
    logits = answerer.predict({n: np.asarray(f) for n, f in features.items()}, verbose=0)
    width = features["token_ids"].shape[1]
    for place, name in enumerate(("start_logits", "end_logits")):
        np.testing.assert_allclose(named[name], logits[:, place, :width], atol=1e-6)


def test_quantize_is_that_of_keras(classifier, tmp_path):
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


@pytest.mark.parametrize("file_format", ["onnx", "openvino"])
def test_export_has_the_arguments_of_keras(file_format, classifier, tmp_path):
    classifier.export(tmp_path / "out", format=file_format)
    assert (tmp_path / "out" / "config.json").is_file()
    with pytest.raises(InputError, match="ids_only is only for"):
        classifier.export(tmp_path / "out", format=file_format, ids_only=True)
    with pytest.raises(InputError, match="custom_ops is only for"):
        classifier.export(tmp_path / "out", format=file_format, custom_ops=False)


# === Pre-training ===


@pytest.mark.parametrize(
    ("name", "argument", "line"),
    [
        (name, argument, line)
        for name in ("prepare", "pretrain", "adapt", "mask_tokens")
        for argument, line in GUESSES[name].items()
    ],
)
def test_first_guesses_at_pretraining(name, argument, line):
    with pytest.raises(InputError, match=f"{name} has no argument '{argument}'") as error:
        getattr(keras_bert_impl, name)(**{argument: 1})
    assert line in str(error.value)


# === Tokenizers ===

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "runn", "a"]


@pytest.fixture(scope="module")
def tokenizer():
    from keras_bert_impl.tokenizers import WordPieceTokenizer

    return WordPieceTokenizer(VOCABULARY)


@pytest.mark.parametrize("name", GUESSES["Tokenizer"])
def test_names_of_a_tokenizer(tokenizer, name):
    assert not hasattr(tokenizer, name)
    line = re.escape(GUESSES["Tokenizer"][name])
    with pytest.raises(AttributeError, match=f"'{name}'. Write {line}"):
        getattr(tokenizer, name)


@pytest.mark.parametrize("method", ["__call__", "tokenize"])
@pytest.mark.parametrize("argument", GUESSES["Tokenizer.__call__"])
def test_arguments_of_a_tokenizer(tokenizer, method, argument):
    with pytest.raises(InputError, match=f"no argument '{argument}'. Write "):
        getattr(tokenizer, method)(["un"], **{argument: True})


@pytest.mark.parametrize("argument", GUESSES["WordPieceTokenizer"])
def test_arguments_of_a_new_tokenizer(argument):
    from keras_bert_impl.tokenizers import WordPieceTokenizer

    with pytest.raises(InputError, match=f"no argument '{argument}'. Write WordPieceTokenizer"):
        WordPieceTokenizer(**{argument: VOCABULARY})


def test_two_lists_are_not_a_pair(tokenizer):
    with pytest.raises(InputError, match=r"Write|write tokenizer\(\(questions, contexts\)\)"):
        tokenizer(["un"], ["a"])


def test_what_does_work(tokenizer, tmp_path):
    """The code suggested in the table works."""
    from keras_bert_impl.tokenizers import WordPieceTokenizer

    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY))
    for path in tmp_path / "vocab.txt", str(tmp_path / "vocab.txt"):
        assert WordPieceTokenizer(path).vocabulary == VOCABULARY
    assert len(tokenizer) == tokenizer.vocabulary_size == 9
    assert [tokenizer.id_to_token(i) for i in (5, 6)] == ["un", "##want"]
    assert [tokenizer.token_to_id(token) for token in ("un", "##want")] == [5, 6]
    with pytest.raises(InputError, match="lacks 'x'"):
        tokenizer.token_to_id("x")
    assert tokenizer.detokenize([2, 5, 6, 8, 3, 0]) == "unwant a"
    assert tokenizer.detokenize([[5, 6], [8]]) == ["unwant", "a"]
    assert tokenizer(("un", "a"))["token_ids"].numpy().tolist() == [[2, 5, 3, 8, 3]]
