"""LoRA to and from the `peft` library, on its own base models."""

import dataclasses
import json

import numpy as np
import peft
import pytest
import safetensors.numpy
import torch
import transformers

from keras_bert_impl.checkpoints.config import Adapter
from keras_bert_impl.tasks import TextClassifier, TextEmbedder
from keras_bert_impl.training.tuning import save_tuned
from keras_bert_impl.utils.errors import InputError
from tests.tasks import helpers
from tests.tasks.base.test_family import KINDS

TEXTS = ["a good film", "what a dull plot and very awful joy"]
FEATURES = {name: value.numpy() for name, value in helpers.tokenizer()(TEXTS, length=10).items()}
# Ours computes in float32, theirs in float64; logits have magnitude 1.
TOLERANCE = 1e-5
FAST = ("bert", "modernbert")


def base_of(architecture, directory):
    settings = {"num_layers": 2, "intermediate_dim": 64, "vocabulary_size": 40}
    encoder = helpers.encoder(architecture=architecture, **settings | KINDS[architecture])
    TextClassifier(encoder, helpers.tokenizer(), num_classes=3).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return base_of("bert", tmp_path_factory.mktemp("bert"))


def theirs(base):
    return transformers.AutoModelForSequenceClassification.from_pretrained(base)


def their_logits(model, num_segments):
    inputs = {"input_ids": FEATURES["token_ids"], "attention_mask": FEATURES["padding_mask"]}
    if num_segments > 1:
        inputs["token_type_ids"] = FEATURES["segment_ids"]
    with torch.no_grad():
        inputs = {name: torch.tensor(value) for name, value in inputs.items()}
        return model.double().eval()(**inputs).logits.numpy()


def with_noise(model):
    draw = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(weight.numpy() + 0.1 * draw.normal(size=weight.shape))
    return model


@pytest.mark.parametrize(
    "architecture",
    [pytest.param(kind, marks=[] if kind in FAST else [pytest.mark.slow]) for kind in KINDS],
)
@pytest.mark.on_tensorflow
def test_peft_loads_ours(architecture, tmp_path):
    base = base_of(architecture, tmp_path / "base")
    adapter = Adapter("lora", size=3, alpha=5.0)
    plain = TextClassifier.from_pretrained(base)
    model = with_noise(TextClassifier.from_pretrained(base, adapter=adapter))
    save_tuned(model, tmp_path / "tuned", base)
    loaded = peft.PeftModel.from_pretrained(theirs(base), tmp_path / "tuned")
    expected = their_logits(loaded, model.config.num_segments)
    np.testing.assert_allclose(model(FEATURES), expected, rtol=0, atol=TOLERANCE)
    assert np.abs(expected - plain(FEATURES).numpy()).max() > 0.01
    # Without our config.json, the origin of fused matrices is unknown.
    (tmp_path / "tuned" / "config.json").unlink()
    again = TextClassifier.from_pretrained(tmp_path / "tuned", base=base)
    np.testing.assert_allclose(again(FEATURES), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.on_tensorflow
def test_peft_loads_an_embedder(bert, tmp_path):
    adapter = Adapter("lora", size=3, alpha=5.0)
    model = with_noise(TextEmbedder.from_pretrained(bert, adapter=adapter, pooling="cls"))
    save_tuned(model, tmp_path / "tuned", bert)
    network = transformers.AutoModel.from_pretrained(bert)
    loaded = peft.PeftModel.from_pretrained(network, tmp_path / "tuned").eval()
    inputs = model.tokenizer(TEXTS)
    with torch.no_grad():
        expected = loaded(
            input_ids=torch.tensor(inputs["token_ids"].numpy()),
            attention_mask=torch.tensor(inputs["padding_mask"].numpy()),
            token_type_ids=torch.tensor(inputs["segment_ids"].numpy()),
        ).last_hidden_state[:, 0]
    received = model.encode(TEXTS)
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5)  # of float32
    again = TextEmbedder.from_pretrained(tmp_path / "tuned", pooling="cls")
    np.testing.assert_array_equal(again.encode(TEXTS), received)


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["query", "value"], "modules_to_save": ["classifier"]},
        {"target_modules": ["attention.output.dense", "key"], "use_rslora": True, "r": 4},
        {
            "target_modules": ["query", "intermediate.dense"],
            "rank_pattern": {"bert.encoder.layer.1.attention.self.query": 5},
            "alpha_pattern": {"bert.encoder.layer.0.intermediate.dense": 7.0},
        },
        {
            "target_modules": ["query", "value"],
            "rank_pattern": {"layer.1.attention.self.query": 5, "value": 3},
            "alpha_pattern": {"query": 7.0},
        },
        {
            "target_modules": ["query", "value", "intermediate.dense"],
            "rank_pattern": {r"^bert\.encoder\.layer\.\d+\..*query": 5},
            "alpha_pattern": {r"layer\.[0-0]\.(intermediate|output).dense": 7.0},
        },
        {"target_modules": "all-linear"},
        {"target_modules": ["pooler.dense"]},
        {"target_modules": ["query", "intermediate.dense"], "bias": "all"},
        {"target_modules": ["query"], "bias": "lora_only"},
    ],
    ids=[
        *("two", "rank-stabilized", "patterns", "ends of names", "expressions"),
        *("all-linear", "pooler", "all biases", "their biases"),
    ],
)
def test_we_load_what_peft_wrote(bert, tmp_path, settings):
    settings = {"task_type": "SEQ_CLS", "r": 2, "lora_alpha": 3, "lora_dropout": 0.1} | settings
    model = peft.get_peft_model(theirs(bert), peft.LoraConfig(**settings))
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    model.save_pretrained(tmp_path / "tuned")
    ours = TextClassifier.from_pretrained(tmp_path / "tuned", base=bert)
    assert ours.num_classes == 3
    assert ours.config.adapter is None or ours.config.adapter.dropout == 0.1
    np.testing.assert_allclose(ours(FEATURES), their_logits(model, 2), rtol=0, atol=TOLERANCE)


def test_the_older_file_of_peft_is_read(bert, tmp_path):
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"])
    model = peft.get_peft_model(theirs(bert), settings)
    model.save_pretrained(tmp_path / "new")
    model.save_pretrained(tmp_path / "old", safe_serialization=False)
    assert (tmp_path / "old" / "adapter_model.bin").exists()
    new, old = (TextClassifier.from_pretrained(tmp_path / n, base=bert) for n in ("new", "old"))
    np.testing.assert_array_equal(new(FEATURES), old(FEATURES))


def test_rejects_an_adapter_that_is_its_own_base(tmp_path):
    (tmp_path / "adapter_model.bin").touch()
    with pytest.raises(InputError, match="contains only fine-tuned weights. Pass a whole model"):
        TextClassifier.from_pretrained(tmp_path, base=tmp_path)


@pytest.mark.parametrize("base", ["/etc", "~root", "../base", "..", "$HOME/x", "x" * 5000, "a\x1b"])
def test_the_base_of_an_adapter_is_the_name_of_a_model(tmp_path, base):
    settings = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 2}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    (tmp_path / "adapter_model.bin").touch()
    with pytest.raises(InputError, match="adapter_config.json: the base model .* is not the name"):
        TextClassifier.from_pretrained(tmp_path)


def test_a_very_long_name_is_no_model():
    with pytest.raises(InputError, match="No model is named .{,100} Pass a directory"):
        TextClassifier.from_pretrained("x" * 5000)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"use_dora": True}, "use_dora must be null, false or missing"),
        (
            {"init_lora_weights": "pissa"},
            "init_lora_weights must be an initialization that does not change",
        ),
        ({"init_lora_weights": "olora"}, "path_initial_model_for_weight_conversion"),
    ],
)
def test_rejects_lora_variants(bert, tmp_path, settings, message):
    settings = {"task_type": "SEQ_CLS", "r": 2, "target_modules": ["query"]} | settings
    model = peft.get_peft_model(theirs(bert), peft.LoraConfig(**settings))
    model.save_pretrained(tmp_path / "tuned")
    with pytest.raises(InputError, match=message):
        TextClassifier.from_pretrained(tmp_path / "tuned", base=bert)


def test_rejects_slow_expressions(bert, tmp_path):
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"])
    peft.get_peft_model(theirs(bert), settings).save_pretrained(tmp_path / "tuned")
    path = tmp_path / "tuned" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rank_pattern": {"(.*)+x": 3}}))
    with pytest.raises(InputError, match="rank_pattern.'.*' is not a supported pattern"):
        TextClassifier.from_pretrained(tmp_path / "tuned", base=bert)


def test_rejects_unsupported_peft_files(bert, tmp_path):
    settings = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=2)
    peft.get_peft_model(theirs(bert), settings).save_pretrained(tmp_path / "tuned")
    with pytest.raises(InputError, match="peft_type must be one of LORA, got 'PROMPT_TUNING'"):
        TextClassifier.from_pretrained(tmp_path / "tuned", base=bert)


def test_fused_matrices_hold_blocks(tmp_path):
    base = base_of("modernbert", tmp_path / "base")
    adapter = Adapter("lora", size=3, alpha=6.0, projections=("query", "value", "attention_output"))
    model = with_noise(TextClassifier.from_pretrained(base, adapter=adapter))
    save_tuned(model, tmp_path / "tuned", base)
    tensors = safetensors.numpy.load_file(tmp_path / "tuned" / "adapter_model.safetensors")
    name = "base_model.model.model.layers.0.attn.Wqkv.lora_B.weight"
    assert tensors[name].shape == (3 * 16, 2 * 3)
    assert (tensors[name][16:32] == 0).all() and (tensors[name][:16, 3:] == 0).all()
    loaded = TextClassifier.from_pretrained(tmp_path / "tuned")
    assert loaded.config.adapter == dataclasses.replace(adapter)
    np.testing.assert_array_equal(loaded(FEATURES), model(FEATURES))
