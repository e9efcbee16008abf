"""Model directories of all versions of `sentence-transformers`: modules that make text vectors.

Expected vectors are computed in PyTorch by that library's formulas, from vectors that this package
computes without the files under test.
"""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import torch
from torch.nn import functional

from keras_bert_impl import Encoder, TextEmbedder
from keras_bert_impl.checkpoints.interop.sentence_transformers import (
    ACTIVATIONS,
    read_sentence_settings,
    write_sentence_settings,
)
from keras_bert_impl.tasks.registry import model_class_of
from keras_bert_impl.tokenizers import Tokenizer, WordPieceTokenizer
from keras_bert_impl.utils.errors import InputError
from tests.tasks.helpers import encoder, examples, tokenizer

TEXTS, _ = examples(count=9)
OLD = ["roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An embedder with a cased vocabulary, saved in `directory`."""
    vocabulary = [*tokenizer().vocabulary, "Good", "GREAT"]
    cased = WordPieceTokenizer(vocabulary, lowercase=False)
    small = encoder(dropout=0.0, use_pooler=False, vocabulary_size=len(vocabulary))
    embedder = TextEmbedder(small, cased)
    embedder.directory = tmp_path_factory.mktemp("plain")
    embedder.save_pretrained(embedder.directory)
    return embedder


@pytest.fixture
def copy(plain, tmp_path):
    """A copy of the directory, and a function that rewrites one of its JSON files."""
    shutil.copytree(plain.directory, tmp_path, dirs_exist_ok=True)

    def write(name, content):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))

    return tmp_path, write


def add_modules(directory, write, *modules):
    """Appends modules to those of the directory: (class, settings, tensors or None)."""
    listed = json.loads((directory / "modules.json").read_text())
    for name, settings, tensors in modules:
        folder = f"{len(listed)}_{name}"
        listed.append({"path": folder, "type": f"sentence_transformers.models.{name}"})
        write(f"{folder}/config.json", settings)
        if tensors is not None:
            safetensors.numpy.save_file(tensors, directory / folder / "model.safetensors")
    write("modules.json", listed)


# === The encoder and its texts ===


@pytest.mark.parametrize("name", ["bert", *OLD])
def test_settings_are_found_under_every_name(copy, name):
    directory, write = copy
    (directory / "sentence_bert_config.json").unlink()
    write(f"sentence_{name}_config.json", {"max_seq_length": 5, "do_lower_case": True})
    settings = read_sentence_settings(directory)
    assert (settings["max_length"], settings["do_lower_case"]) == (5, True)


def test_reads_settings_under_an_old_name(plain, copy):
    directory, write = copy
    (directory / "sentence_bert_config.json").unlink()
    write("sentence_roberta_config.json", {"max_seq_length": 5, "do_lower_case": True})
    model = TextEmbedder.from_pretrained(directory)
    assert (model.max_length, model.do_lower_case) == (5, True)
    texts = ["Good film", "GREAT joy the plot is dull", "not good"]
    cut = ["good film", "great joy the", "not good"]  # three tokens between [CLS] and [SEP]
    np.testing.assert_allclose(model.encode(texts), plain.encode(cut), atol=1e-6)
    assert np.abs(plain.encode(texts) - plain.encode(cut))[:2].max() > 0.1  # truncation must matter


def test_lower_case_is_in_every_form_of_the_model(copy, tmp_path_factory):
    directory, write = copy
    write("sentence_bert_config.json", {"do_lower_case": True})
    model = TextEmbedder.from_pretrained(directory)
    texts = ["Good film", "GREAT joy", "the plot"]
    expected = model.encode([text.lower() for text in texts])
    np.testing.assert_array_equal(model.encode(texts), expected)
    np.testing.assert_array_equal(
        model.features_in_graph(tf.constant([texts]))["token_ids"][0],
        model.tokenizer([text.lower() for text in texts])["token_ids"],
    )
    out = tmp_path_factory.mktemp("out")
    model.save_pretrained(out / "saved")
    assert json.loads((out / "saved" / "sentence_bert_config.json").read_text())["do_lower_case"]
    np.testing.assert_array_equal(
        TextEmbedder.from_pretrained(out / "saved").encode(texts), expected
    )
    model.export(out / "exported")
    served = tf.saved_model.load(out / "exported").signatures["serving_default"]
    answer = served(text=tf.constant(texts))["vectors"]
    np.testing.assert_allclose(answer, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["Transformer", "RoBERTa"])
def test_old_directories_have_the_encoder_in_a_folder(plain, copy, kind):
    directory, write = copy
    inner = directory / f"0_{kind}"
    inner.mkdir()
    for file in list(directory.iterdir()):
        if file.is_file() and file.name not in (
            "modules.json",
            "config_sentence_transformers.json",
        ):
            file.rename(inner / file.name)
    write("config.json", {"__version__": "0.3.8"})  # version of sentence-transformers
    modules = json.loads((directory / "modules.json").read_text())
    modules[0] |= {"path": f"0_{kind}", "type": f"sentence_transformers.models.{kind}"}
    write("modules.json", modules)
    model = TextEmbedder.from_pretrained(directory)
    # Retraced, which may round differently.
    np.testing.assert_allclose(model.encode(TEXTS), plain.encode(TEXTS), atol=1e-6)
    assert model_class_of(directory) is TextEmbedder
    states = Encoder.from_pretrained(directory)(plain.tokenizer(TEXTS))["sequence_output"]
    assert states.shape[0] == 9
    shutil.rmtree(inner)
    with pytest.raises(InputError, match=f"0_{kind} has no config.json"):
        TextEmbedder.from_pretrained(directory)


@pytest.mark.parametrize(
    "of_transformer, of_tokenizer, length",
    [({}, {}, 32), ({}, {"model_max_length": 10**30}, 32), ({}, {"model_max_length": 9}, 9),
     ({"max_seq_length": None}, {"model_max_length": 9}, 9), ({"max_seq_length": 7}, {}, 7),
     ({"max_seq_length": 512}, {}, 32)],
)  # fmt: skip
def test_max_length_equals_the_library(copy, caplog, of_transformer, of_tokenizer, length):
    directory, write = copy
    config = json.loads((directory / "config.json").read_text())
    write("config.json", {k: v for k, v in config.items() if k != "keras_bert_impl"})
    write("sentence_bert_config.json", of_transformer)
    saved = json.loads((directory / "tokenizer_config.json").read_text())
    saved.pop("model_max_length", None)
    write("tokenizer_config.json", saved | of_tokenizer)
    assert TextEmbedder.from_pretrained(directory).max_length == length
    is_cut = of_transformer.get("max_seq_length") == 512
    assert ("max_length is 512, but the encoder has 32 positions" in caplog.text) is is_cut


# === Modules after the pooling ===


def tensors(*shapes, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
def test_dense_and_layer_norm_equal_pytorch(plain, copy, tmp_path_factory, activation):
    directory, write = copy
    kernel, bias, gamma, beta, last = tensors((7, 16), 7, 7, 7, (5, 7))
    dense = {"in_features": 16, "out_features": 7, "activation_function": ACTIVATIONS[activation]}
    linear = {"out_features": 5, "bias": False, "activation_function": ACTIVATIONS["linear"]}
    add_modules(
        directory,
        write,
        ("Dropout", {"dropout": 0.5}, None),
        ("Dense", dense, {"linear.weight": kernel, "linear.bias": bias}),
        ("LayerNorm", {"dimension": 7}, {"norm.weight": gamma, "norm.bias": beta}),
        ("Dense", linear, {"linear.weight": last}),
        ("Normalize", {}, None),
    )
    hidden = torch.tensor(plain.encode(TEXTS) @ kernel.T + bias)
    hidden = {"tanh": torch.tanh, "gelu": functional.gelu}[activation](hidden)
    hidden = functional.layer_norm(hidden, (7,), torch.tensor(gamma), torch.tensor(beta))
    expected = functional.normalize(hidden @ torch.tensor(last.T), dim=-1)
    model = TextEmbedder.from_pretrained(directory)
    assert model.dim == 5
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
    out = tmp_path_factory.mktemp("out")
    model.save_pretrained(out)
    modules = [module["type"] for module in json.loads((out / "modules.json").read_text())]
    assert [name.rpartition(".")[2] for name in modules] == [
        "Transformer", "Pooling", "Dense", "LayerNorm", "Dense", "Normalize"
    ]  # fmt: skip
    again = TextEmbedder.from_pretrained(out)
    np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))


def test_rejects_projections_that_contradict_their_files(copy):
    directory, write = copy
    (kernel,) = tensors((7, 9))
    dense = {"out_features": 7, "bias": False}
    add_modules(directory, write, ("Dense", dense, {"linear.weight": kernel}))
    with pytest.raises(InputError, match=r"kernel of projection_0 must have shape \(16, 7\)"):
        TextEmbedder.from_pretrained(directory)
    safetensors.numpy.save_file({"w": kernel}, directory / "2_Dense" / "model.safetensors")
    with pytest.raises(InputError, match="has no tensor linear.weight"):
        TextEmbedder.from_pretrained(directory)


def test_training_adds_new_projections():
    projections = [{"kind": "dense", "dim": 6}, {"kind": "layer_norm"}]
    small = encoder(dropout=0.0, use_pooler=False)
    model = TextEmbedder(small, tokenizer(), projections=projections, loss="multiple_negatives")
    assert model.dim == 6
    before = model.projection_layers[0].kernel.numpy()
    model.fit(list(zip(TEXTS, TEXTS[::-1])), batch_size=9, verbose=0)
    assert (before != model.projection_layers[0].kernel.numpy()).any()
    with pytest.raises(InputError, match="activation of a projection must be one of"):
        TextEmbedder(
            small, tokenizer(), projections=[{"kind": "dense", "dim": 6, "activation": "x"}]
        )


# === Prompts, dimensions ===


def test_default_prompt_precedes_every_text(plain, copy, tmp_path_factory):
    directory, write = copy
    prompts = {"query": "what ", "document": "", "other": "a "}
    settings = {"prompts": prompts, "default_prompt_name": "query", "truncate_dim": 3}
    write("config_sentence_transformers.json", settings | {"similarity_fn_name": "dot"})
    model = TextEmbedder.from_pretrained(directory)
    expected = plain.encode(["what " + text for text in TEXTS])[:, :3]
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    pairs = model.predict(list(zip(TEXTS, TEXTS[::-1])), verbose=0)
    np.testing.assert_allclose(pairs[:, 1], expected[::-1], atol=1e-6)
    out = tmp_path_factory.mktemp("out")
    model.save_pretrained(out)
    again = TextEmbedder.from_pretrained(out)
    assert (again.prompts, again.similarity_fn_name, again.dim) == (model.prompts, "dot", 3)
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-6)


def test_written_tensors_are_readable_by_other_users(tmp_path):
    settings = dict.fromkeys(("layer_weights", "default_prompt_name", "truncate_dim"))
    settings |= {"do_lower_case": False, "max_length": 9, "num_layers": 1, "pooling": "mean"}
    settings |= {"normalize": False, "prompts": {}, "similarity_fn_name": "cosine"}
    settings["projections"] = [{"kind": "layer_norm"}]
    gamma, beta = tensors(16, 16)
    write_sentence_settings(tmp_path, settings, [{"gamma": gamma, "beta": beta}], 2, 16)
    (folder,) = tmp_path.glob("*_LayerNorm")
    modes = {path.name: oct(path.stat().st_mode) for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]


# === What is not supported ===

PATH = "sentence_transformers.models"


@pytest.mark.parametrize(
    "name, content, message",
    [
        (
            "sentence_bert_config.json",
            {"max_seq_length": "9"},
            "must be a positive integer, got '9'",
        ),
        (
            "sentence_bert_config.json",
            {"do_lower_case": "yes"},
            "must be True or False, got 'yes'",
        ),
        ("sentence_bert_config.json", {"tokenizer_args": {"a": 1}}, "a in tokenizer_args is not"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task='fill-"),
        ("1_Pooling/config.json", {"pooling_mode": "sum"}, "the pooling is sum"),
        # The library concatenates the vectors in this order.
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}, "must be in this order"),
        ("1_Pooling/config.json", {"pooling_mode": []}, "must be in this order"),
        ("1_Pooling/config.json", {"pool_factor": 2}, "pool_factor=2 is not supported"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": 3},
            "must be True or False, got 3",
        ),
        ("config_sentence_transformers.json", {"prompts": ["a"]}, "prompts must be an object"),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "x"},
            "must be the name of a prompt, got 'x'",
        ),
        ("config_sentence_transformers.json", {"similarity_fn_name": "max"}, "similarity_fn_name"),
        (
            "config_sentence_transformers.json",
            {"truncate_dim": -1},
            "truncate_dim must be an integer",
        ),
        (
            "config_sentence_transformers.json",
            {"truncate_dim": 17},
            "truncate_dim must be from 1 to",
        ),
        (
            "modules.json",
            [{"path": 1, "type": f"{PATH}.Pooling"}],
            "path of a module must be a str",
        ),
    ],
)
def test_rejects_unsupported_settings(copy, name, content, message):
    directory, write = copy
    write(name, content)
    with pytest.raises(InputError, match=message):
        TextEmbedder.from_pretrained(directory)


@pytest.mark.parametrize(
    "module, message",
    [
        (("WordWeights", {}, None), "WordWeights' is not supported"),
        (("LSTM", {}, None), "LSTM' is not supported"),
        (("Pooling", {"pooling_mode": "cls"}, None), "Pooling' is not supported at this position"),
        (("Dense", {"out_features": 2, "use_residual": True}, {}), "use_residual=True is not"),
        (("Dense", {"out_features": 2, "module_output_name": "scores"}, {}), "='scores' is not"),
        (("LayerNorm", {"eps": 1e-3}, {}), "eps=0.001 is not supported"),
        (("Normalize", {"module_input_name": "token_embeddings"}, None), "='token_embeddings' is"),
        (("Normalize", {"module_input_name": None}, None), "module_input_name=None is not"),
        (("Normalize", {"module_output_name": "normed"}, None), "module_output_name='normed' is"),
        (
            ("Dense", {"out_features": 2, "activation_function": "os.system"}, {}),
            "'os.system' is not",
        ),
    ],
)
def test_rejects_unsupported_modules(copy, module, message):
    directory, write = copy
    add_modules(directory, write, module)
    with pytest.raises(InputError, match=message):
        TextEmbedder.from_pretrained(directory)


def test_normalizes_with_the_defaults_of_version_6(copy):
    directory, write = copy
    names = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
    add_modules(directory, write, ("Normalize", names, None))
    assert read_sentence_settings(directory)["normalize"]


def test_rejects_custom_model_code(copy):
    directory, write = copy
    modules = json.loads((directory / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    write("modules.json", modules)
    with pytest.raises(InputError, match="the module 'custom_st.Transformer' is not supported"):
        TextEmbedder.from_pretrained(directory)


def test_rejects_a_projection_after_normalization(copy):
    directory, write = copy
    dense = ("Dense", {"out_features": 2}, {})
    add_modules(directory, write, ("Normalize", {}, None), dense)
    with pytest.raises(InputError, match="Dense' is not supported at this position"):
        TextEmbedder.from_pretrained(directory)


def test_rejects_prompts_excluded_from_pooling(copy):
    directory, write = copy
    write("1_Pooling/config.json", {"pooling_mode": "cls", "include_prompt": False})
    assert TextEmbedder.from_pretrained(directory).pooling == "cls"  # there is no prompt to exclude
    write("config_sentence_transformers.json", {"prompts": {"query": "what "}})
    with pytest.raises(InputError, match="include_prompt=false"):
        TextEmbedder.from_pretrained(directory)


def test_tokenizer_comes_from_the_directory(plain):
    assert Tokenizer.from_pretrained(plain.directory).vocabulary == plain.tokenizer.vocabulary
