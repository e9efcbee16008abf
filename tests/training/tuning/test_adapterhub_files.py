"""Files of AdapterHub, written by its library `adapters` with the logits that it computes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_bert_impl.checkpoints.config import Adapter, EncoderConfig
from keras_bert_impl.checkpoints.interop import open_model
from keras_bert_impl.checkpoints.interop.source import SafetensorsFile, write_tensors
from keras_bert_impl.models.encoder import Encoder
from keras_bert_impl.tasks import QuestionAnswerer, TextClassifier, TextEmbedder, TokenClassifier
from keras_bert_impl.tokenizers import WordPieceTokenizer
from keras_bert_impl.training.tuning import save_adapterhub, save_tuned
from keras_bert_impl.utils.errors import InputError

FILES = Path(__file__).parents[2] / "checkpoints" / "interop" / "adapterhub"
CLASSES = {
    "pfeiffer": TextClassifier,
    "houlsby": TextClassifier,
    "multi": TextClassifier,
    "tagging": TokenClassifier,
    "answers": QuestionAnswerer,
}
ANSWERS = {"max_question_length": 2, "max_length": 12, "doc_stride": 3}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    copy = shutil.copytree(FILES, tmp_path_factory.mktemp("files") / "adapterhub")
    tokenizer = WordPieceTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
    )
    for family in ("bert", "roberta"):
        tokenizer.save_pretrained(copy / family / "base")
    return copy


def load(folder, base, name):
    settings = ANSWERS if name == "answers" else {}
    return CLASSES[name].from_pretrained(folder, base=base, **settings)


def logits(model, ids):
    features = {"token_ids": np.array(ids, "int32")}
    features["padding_mask"] = features["word_mask"] = (features["token_ids"] != 0).astype("int32")
    features["segment_ids"] = np.zeros_like(features["token_ids"])
    outputs = model({name: features[name] for name in model.input}, training=False)
    outputs = list(outputs.values()) if isinstance(outputs, dict) else outputs
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("name", CLASSES)
def test_logits_of_the_library_and_the_files_again(files, tmp_path, family, name):
    expected = json.loads((files / family / "logits.json").read_text())
    base = files / family / "base"
    model = load(files / family / name, base, name)
    real = np.array(expected["ids"]) != 0
    for ours, theirs in zip(logits(model, expected["ids"]), expected[name], strict=True):
        where = real if np.ndim(theirs) > 1 and np.shape(theirs)[1] == 8 else ...
        np.testing.assert_allclose(np.array(ours)[where], np.array(theirs)[where], atol=1e-5)
    save_adapterhub(model, tmp_path / "again", base)
    again = load(tmp_path / "again", base, name)
    for ours, theirs in zip(logits(again, expected["ids"]), logits(model, expected["ids"])):
        np.testing.assert_array_equal(ours, theirs)
    if (files / family / name / "adapter.safetensors").exists():
        for file in ("adapter.safetensors", "model_head.safetensors"):
            saved, original = (
                SafetensorsFile(d / file) for d in (tmp_path / "again", files / family / name)
            )
            renamed = {
                n.replace(f".{name}.", ".adapter."): original.read(n) for n in original.header
            }
            assert set(renamed) == set(saved.header)
            for tensor, array in renamed.items():
                np.testing.assert_array_equal(saved.read(tensor), array)
    if name != "answers":
        assert again.labels == model.labels == ["x", "y", "z"]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_head_on_the_pooler_of_the_base(files, tmp_path, family):
    """Its logits equal the same head with a copy of the pooler as its first layer."""
    base, models = SafetensorsFile(files / family / "base" / "model.safetensors"), []
    for uses_pooler in (True, False):
        folder = shutil.copytree(files / family / "pfeiffer", tmp_path / str(uses_pooler))
        head = SafetensorsFile(folder / "model_head.safetensors")
        tensors = {name: np.array(head.read(name)) for name in head.header}
        prefix = "heads.pfeiffer."
        for part in ("weight", "bias"):
            output = tensors.pop(f"{prefix}4.{part}")
            tensors[f"{prefix}1.{part}"] = base.read(f"pooler.dense.{part}")
            tensors[f"{prefix}{1 if uses_pooler else 4}.{part}"] = output
        write_tensors(folder / "model_head.safetensors", tensors, like="head_config.json")
        settings = json.loads((folder / "head_config.json").read_text())
        settings["config"] |= {"use_pooler": uses_pooler, "layers": 1 if uses_pooler else 2}
        (folder / "head_config.json").write_text(json.dumps(settings))
        models.append(load(folder, files / family / "base", "pfeiffer"))
    ids = json.loads((files / family / "logits.json").read_text())["ids"]
    np.testing.assert_array_equal(*[logits(model, ids)[0] for model in models])
    shutil.copytree(files / family / "base", tmp_path / "base")
    tensors = {name: base.read(name) for name in base.header if "pooler" not in name}
    write_tensors(tmp_path / "base" / "model.safetensors", tensors)
    with pytest.raises(InputError, match="the head uses the pooler of the base model"):
        load(tmp_path / "True", tmp_path / "base", "pfeiffer")


def test_classifiers_of_electra_have_another_activation(files, tmp_path):
    sizes = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 12}
    config = EncoderConfig(20, architecture="electra", use_pooler=False, **sizes)
    tokenizer = WordPieceTokenizer.from_pretrained(files / "bert" / "base")
    adapter = Adapter("pfeiffer", size=2, after_norm=True)
    Encoder(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    folder, base = tmp_path / "out", tmp_path / "base"
    model = TextClassifier.from_pretrained(base, num_classes=2, adapter=adapter)
    with pytest.raises(InputError, match="classifier of electra encoders has another activation"):
        save_adapterhub(model, folder, base)
    tagger = TokenClassifier.from_pretrained(base, labels=["x", "y"], adapter=adapter)
    save_adapterhub(tagger, folder, base)
    shutil.copy(files / "bert" / "pfeiffer" / "head_config.json", folder)
    with pytest.raises(InputError, match="classifier of electra encoders has another activation"):
        load(folder, base, "pfeiffer")


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("architecture", "lora", "only bottleneck adapters"),
        ("scaling", 4.0, "1.0, because other values are not supported"),
        ("ln_before", True, "False, because"),
        ("non_linearity", "tanh", "must be one of"),
        ("mh_adapter", True, "original_ln_before only after the output"),
    ],
)
def test_unsupported_settings(files, tmp_path, key, value, message):
    folder = shutil.copytree(files / "bert" / "pfeiffer", tmp_path / "copy")
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings["config"][key] = value
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=message):
        load(folder, files / "bert" / "base", "pfeiffer")


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("base/config.json", {"hidden_act": 1}, "base/config.json: hidden_act must be a string"),
        ("pfeiffer/adapter_config.json", {"peft_type": "LORA"}, "config.json is not of Adapter"),
    ],
)
def test_errors_name_the_file(files, tmp_path, name, changes, message):
    shutil.copytree(files / "bert", tmp_path / "copy")
    path = tmp_path / "copy" / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError, match=message):
        open_model(tmp_path / "copy" / "pfeiffer", base=tmp_path / "copy" / "base")


def test_models_without_a_bottleneck_are_not_written(files, tmp_path):
    base = files / "bert" / "base"
    model = TextClassifier.from_pretrained(base, num_classes=2, adapter=Adapter("lora"))
    with pytest.raises(InputError, match="The model has a lora adapter"):
        save_adapterhub(model, tmp_path / "out", base)
    model = TextClassifier.from_pretrained(base, num_classes=2)
    with pytest.raises(InputError, match="The model has no adapter"):
        save_adapterhub(model, tmp_path / "out", base)
    assert not (tmp_path / "out").exists()


def test_models_without_a_head_are_not_written(files, tmp_path):
    base = files / "bert" / "base"
    model = TextEmbedder.from_pretrained(base, adapter=Adapter("pfeiffer", size=2))
    with pytest.raises(InputError, match=r"require a TextClassifier.* Call save_tuned\(.* None"):
        save_adapterhub(model, tmp_path / "out", base)
    assert not (tmp_path / "out").exists()


def test_a_directory_is_saved_again(files, tmp_path):
    base = files / "bert" / "base"
    for size in (2, 3):
        adapter = Adapter("pfeiffer", size=size)
        model = TextClassifier.from_pretrained(base, num_classes=2, adapter=adapter)
        save_adapterhub(model, tmp_path / "out", base)
        assert load(tmp_path / "out", base, "pfeiffer").config.adapter.size == size
    tuned = TextClassifier.from_pretrained(base, num_classes=2, adapter=Adapter("lora"))
    save_tuned(tuned, tmp_path / "tuned", base)
    with pytest.raises(InputError, match="contains fine-tuned weights .*adapter_model"):
        save_adapterhub(model, tmp_path / "tuned", base)


def test_an_adapter_after_the_norm_needs_a_post_norm_encoder():
    with pytest.raises(InputError, match="after_norm requires a pfeiffer adapter"):
        Adapter("houlsby", after_norm=True)
