"""Conversion between formats and back: bit-identical, with heads and tokenizer."""

import dataclasses
import json
import re
import shutil

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import torch
import transformers

from keras_bert_impl.checkpoints.interop import open_model, read_encoder_config
from keras_bert_impl.cli.main import main
from keras_bert_impl.models.conversion.formats import FORMS, convert, student_of
from keras_bert_impl.models.conversion.vocabulary_augmentation import add_tokens
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import TextClassifier, TextEmbedder
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.checkpoints.interop.google_models import unpacked
from tests.checkpoints.interop.parity import random_original
from tests.checkpoints.interop.test_architectures import CASES, original
from tests.tasks import helpers
from tests.tasks.helpers import encoder

WORDS = [f"word{number}" for number in range(48)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """BERT with both pre-training heads and its tokenizer, written by `transformers`."""
    directory = tmp_path_factory.mktemp("theirs")
    random_original(transformers.BertForPreTraining).save_pretrained(directory)
    WordPieceTokenizer(VOCABULARY[:53]).save_pretrained(directory)
    return directory


def tensors(directory):
    return safetensors.numpy.load_file(directory / "model.safetensors")


def assert_same(first, second):
    first, second = tensors(first), tensors(second)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype and array.shape == second[name].shape
        assert array.tobytes() == second[name].tobytes(), name


def test_to_google_and_back(theirs, tmp_path):
    shapes = convert(theirs, tmp_path / "google", "google")
    assert len(shapes) == len(tensors(theirs))
    stored = dict(tf.train.list_variables(str(tmp_path / "google" / "bert_model.ckpt")))
    assert stored["cls/seq_relationship/output_weights"] == [2, 32]
    convert(tmp_path / "google", tmp_path / "ours")
    assert_same(tmp_path / "ours", theirs)
    again = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "ours")
    assert type(again) is transformers.BertForPreTraining
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert tokenizer("word3 WORD4")["input_ids"] == [2, 8, 9, 3]
    for folder in ("google", "ours"):
        config = json.loads((tmp_path / folder / "tokenizer_config.json").read_text())
        assert config["model_max_length"] == again.config.max_position_embeddings


def test_to_keras_hub_and_back(theirs, tmp_path):
    keras_hub = pytest.importorskip("keras_hub")
    with pytest.raises(InputError, match="activation='gelu'"):
        convert(theirs, tmp_path / "preset", "keras_hub")
    assert not (tmp_path / "preset").exists()
    command = ["convert", "--from", str(theirs), "--to", str(tmp_path / "tanh")]
    assert main([*command, "--form", "keras_hub", "--activation", "gelu_tanh"]) == 0
    exact = Encoder.from_pretrained(theirs, activation="gelu_tanh").get_weights()
    for weight, direct in zip(Encoder.from_pretrained(tmp_path / "tanh").get_weights(), exact):
        assert weight.tobytes() == direct.tobytes()
    model = random_original(hidden_act="gelu_new")
    model.save_pretrained(tmp_path / "theirs")
    Tokenizer.from_pretrained(theirs).save_pretrained(tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "preset", "keras_hub")
    backbone = keras_hub.models.Backbone.from_preset(str(tmp_path / "preset"))
    assert type(backbone) is keras_hub.models.BertBackbone
    convert(tmp_path / "preset", tmp_path / "ours")
    assert_same(tmp_path / "ours", tmp_path / "theirs")


@pytest.mark.parametrize("case", CASES)
def test_every_architecture_with_its_language_model(case, tmp_path):
    """From a PyTorch file that duplicates the embeddings to safetensors."""
    model = original(
        case, "left_to_right" if case in ("modernbert decoder", "gpt2") else "masked_lm"
    )
    (tmp_path / "old").mkdir()
    model.config.save_pretrained(tmp_path / "old")
    torch.save(model.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    model.save_pretrained(tmp_path / "theirs")
    convert(tmp_path / "old", tmp_path / "ours")
    if case != "gpt2":  # its head has no weights, so the file is the encoder's, without a prefix
        assert_same(tmp_path / "ours", tmp_path / "theirs")
    again = type(model).from_pretrained(tmp_path / "ours")
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


def test_a_saved_model_of_the_hub(tmp_path):
    path, expected = unpacked("hub_bert", tmp_path)
    assert main(["convert", "--from", str(path), "--to", str(tmp_path / "ours")]) == 0
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    model = transformers.AutoModel.from_pretrained(tmp_path / "ours").eval()
    assert config["model_type"] == "bert" and type(model) is transformers.BertModel
    assert Tokenizer.from_pretrained(tmp_path / "ours").lowercase
    encoder = Encoder.from_pretrained(tmp_path / "ours")
    for weight, direct in zip(encoder.get_weights(), Encoder.from_pretrained(path).get_weights()):
        assert weight.tobytes() == direct.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_keeps_the_dtype(theirs, tmp_path, dtype):
    (tmp_path / "other").mkdir()
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        (tmp_path / "other" / name).write_bytes((theirs / name).read_bytes())
    safetensors.numpy.save_file(
        {name: array.astype(dtype) for name, array in tensors(theirs).items()},
        tmp_path / "other" / "model.safetensors",
    )
    convert(tmp_path / "other", tmp_path / "ours")
    assert_same(tmp_path / "ours", tmp_path / "other")


def test_warns_about_unknown_tensors(theirs, tmp_path, caplog):
    model = transformers.BertForTokenClassification.from_pretrained(theirs)
    model.save_pretrained(tmp_path / "theirs")
    WordPieceTokenizer(VOCABULARY[:53]).save_pretrained(tmp_path / "theirs")
    arrays = tensors(tmp_path / "theirs") | {"crf.transitions": np.zeros((3, 3), "float32")}
    safetensors.numpy.save_file(arrays, tmp_path / "theirs" / "model.safetensors")
    caplog.clear()  # drops messages of transformers
    convert(tmp_path / "theirs", tmp_path / "ours")
    assert caplog.messages == [f"{tmp_path / 'theirs'}: not converted: crf.transitions"]
    assert set(tensors(tmp_path / "ours")) == set(arrays) - {"crf.transitions"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--form", "onnx"], "there is no 'onnx'; choose from huggingface, google, keras_hub"),
        (["--from", "nowhere"], "No model is named 'nowhere'"),
        (["--from", "./nowhere"], "does not exist"),
        (["--from", "hf://a"], "must have the form hf://owner/name"),
    ],
)
def test_rejects_bad_input(theirs, tmp_path, capsys, arguments, message):
    command = ["convert", "--from", str(theirs), "--to", str(tmp_path / "ours"), *arguments]
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("form", [*FORMS, "student", "larger"])
def test_what_cannot_be_loaded_is_not_written(theirs, tmp_path, form):
    """A bias of shape [1, width] broadcasts in NumPy, but no library loads it."""
    source = shutil.copytree(theirs, tmp_path / "source")
    changed = tensors(source)
    changed["bert.encoder.layer.1.output.dense.bias"].shape = 1, 32
    safetensors.numpy.save_file(changed, source / "model.safetensors")
    with pytest.raises(InputError, match=r"output.dense.bias(; nothing was| must have)"):
        if form == "student":
            student_of(source, tmp_path / "out", [1])
        elif form == "larger":
            add_tokens(source, tmp_path / "out", ["[E1]"])
        else:
            activation = "gelu_tanh" if form == "keras_hub" else None
            convert(source, tmp_path / "out", form, activation)
    assert not (tmp_path / "out").exists()


def test_gpt2_of_tensorflow(tmp_path):
    """`TFGPT2LMHeadModel` has biases of shape [1, width]."""
    sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 12, "vocab_size": 20}
    original = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    original.config.save_pretrained(tmp_path / "old")
    with h5py.File(tmp_path / "old" / "tf_model.h5", "w") as file:
        for name, tensor in original.transformer.state_dict().items():
            place = f"transformer/tfgpt2lm_head_model/transformer/{name.replace('.', '/')}:0"
            place = re.sub(r"/h/(\d)", r"/h_._\1", place)
            if "/ln_" in place:
                place = place.replace("weight:0", "gamma:0").replace("bias:0", "beta:0")
            place = re.sub("(wte|wpe)/weight", r"\1/embeddings", place)
            file[place] = tensor[None] if place.endswith("bias:0") else tensor
    convert(tmp_path / "old", tmp_path / "new")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "new").state_dict()
    for name, tensor in original.state_dict().items():
        assert torch.equal(tensor, again[name]), name


def test_to_google_and_back_keeps_a_head_s_kind_and_names(tmp_path):
    model = helpers.classifier(problem_type="multi_label_classification", max_length=12)
    model.save_pretrained(tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "google", "google")
    convert(tmp_path / "google", tmp_path / "ours")
    expected = model.predict(["good film", "bad"], verbose=0)
    for name in ("google", "ours"):
        again = TextClassifier.from_pretrained(tmp_path / name)
        assert again.problem_type == model.problem_type and again.labels == model.labels
        assert again.max_length == 12
        np.testing.assert_allclose(again.predict(["good film", "bad"], verbose=0), expected)


def test_refuses_a_setting_that_the_format_cannot_express(tmp_path):
    config = dataclasses.replace(helpers.encoder().config, layer_norm_epsilon=1e-3)
    Encoder(config).save_pretrained(tmp_path / "theirs")
    with pytest.raises(InputError, match="cannot express layer_norm_epsilon=0.001"):
        convert(tmp_path / "theirs", tmp_path / "google", "google")
    assert not (tmp_path / "google").exists()


@pytest.mark.parametrize("form", ["google", "keras_hub"])
def test_the_range_of_initial_weights_does_not_stop_a_conversion(form, tmp_path, caplog):
    if form == "keras_hub":
        pytest.importorskip("keras_hub")
    model = helpers.encoder(initializer_range=0.2, activation="gelu_tanh")
    model.save_pretrained(tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "other", form)
    warned = "theirs: not converted: initializer_range=0.2" in caplog.text
    again = read_encoder_config(open_model(tmp_path / "other")).initializer_range
    assert again == (0.02 if warned else 0.2) and warned is (form == "keras_hub")


def test_keeps_the_pooling_of_an_embedder(tmp_path, caplog):
    model = TextEmbedder(helpers.encoder(), helpers.tokenizer(), pooling="cls", normalize=True)
    model.save_pretrained(tmp_path / "theirs")
    expected = model.encode(["good film", "bad"])
    convert(tmp_path / "theirs", tmp_path / "ours")
    convert(tmp_path / "theirs", tmp_path / "ours")  # once more, over its own files
    student_of(tmp_path / "theirs", tmp_path / "student", model.encoder.config.num_layers)
    for name in ("ours", "student"):
        again = TextEmbedder.from_pretrained(tmp_path / name)
        np.testing.assert_array_equal(again.encode(["good film", "bad"]), expected)
    assert "not converted" not in caplog.text
    convert(tmp_path / "theirs", tmp_path / "google", "google")
    assert "not converted: pooling and normalization" in caplog.text


def test_refuses_a_folder_with_files_of_another_model(theirs, tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(InputError, match="already contains 'modules.json', which do not belong"):
        convert(theirs, tmp_path)


@pytest.mark.parametrize("is_equal", [False, True])
def test_an_output_matrix_of_its_own(tmp_path, caplog, is_equal):
    config = transformers.BertConfig(
        vocab_size=53, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config)
    if is_equal:
        decoder, embeddings = model.cls.predictions.decoder, model.bert.embeddings.word_embeddings
        decoder.weight.data, decoder.bias.data = embeddings.weight.data.clone(), decoder.bias.data
        model.cls.predictions.bias.data = decoder.bias.data.clone()
    model.save_pretrained(tmp_path / "theirs")
    WordPieceTokenizer(VOCABULARY).save_pretrained(tmp_path / "theirs")
    if not is_equal:
        with pytest.raises(InputError, match="decoder.weight differs from .*word_embeddings"):
            convert(tmp_path / "theirs", tmp_path / "ours")
        return
    convert(tmp_path / "theirs", tmp_path / "ours")
    again = transformers.BertForMaskedLM.from_pretrained(tmp_path / "ours")
    ids = torch.tensor([[2, 7, 9, 3]])
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, model.eval()(ids).logits, rtol=0, atol=1e-6)


def test_a_cross_encoder_is_a_classifier(tmp_path, caplog):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=53, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=32, num_labels=1,
        )
    )  # fmt: skip
    model.save_pretrained(tmp_path / "base")
    WordPieceTokenizer(VOCABULARY).save_pretrained(tmp_path / "base")
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "base"), device="cpu")
    theirs.save_pretrained(str(tmp_path / "cross"))
    convert(tmp_path / "cross", tmp_path / "ours")
    if (tmp_path / "cross" / "modules.json").exists():  # since version 6
        assert "not converted: the activation of CrossEncoder" in caplog.text
        with pytest.raises(InputError, match="is a cross-encoder. Load it with TextClassifier"):
            TextEmbedder.from_pretrained(tmp_path / "cross")
    pairs = [("word1 word2", "word3"), ("word4", "word5 word6")]
    expected = theirs.predict(pairs, activation_fn=torch.nn.Identity())
    for folder in ("cross", "ours"):
        received = TextClassifier.from_pretrained(tmp_path / folder).predict(pairs, verbose=0)
        np.testing.assert_allclose(received[:, 0], expected, atol=1e-5)


def test_the_generator_of_an_electra(tmp_path, caplog):
    encoders = [encoder(architecture="electra", hidden_dim=n, use_pooler=False) for n in (16, 8)]
    encoders[0].save_pretrained(tmp_path / "both")
    encoders[1].save_pretrained(tmp_path / "both" / "generator")
    for generator, source in ((False, encoders[0]), (True, encoders[1])):
        caplog.clear()
        out = tmp_path / f"converted-{generator}"
        convert(tmp_path / "both", out, generator=generator)
        assert Encoder.from_pretrained(out).config == source.config
        assert any("the generator; see --generator" in m for m in caplog.messages) != generator
    with pytest.raises(InputError, match="has no generator"):
        convert(tmp_path / "both" / "generator", tmp_path / "other", generator=True)
