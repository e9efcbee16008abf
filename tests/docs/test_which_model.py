"""The facts of the page about published models are those of the table in the package."""

import re
from pathlib import Path

import pytest

from keras_bert_impl.checkpoints.config import EncoderConfig
from keras_bert_impl.checkpoints.published import MODELS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "which-model.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Name, parameters in millions, compute relative to BERT-base, case.
ROWS = re.findall(r"`([\w.-]+)` \| ([\d.]+) \| ([\d.]+) \| (lowercased|kept) \|", TEXT)


def compute(name):
    """Multiplications of a token in the layers, at a sequence length of 128."""
    config = EncoderConfig.named(name)
    width, inner = config.hidden_dim, config.intermediate_dim
    of_layer = 4 * width * width + (2 + config.gated) * width * inner + 2 * 128 * width
    return config.num_layers * of_layer


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row_is_true(row):
    name, *stated = row
    assert stated == [
        f"{EncoderConfig.named(name).num_parameters() / 1e6:.1f}",
        f"{compute(name) / compute('bert-base-uncased'):.2g}",
        "lowercased" if MODELS[name].lowercase else "kept",
    ]


def test_every_row_of_a_model_is_checked():
    assert len(ROWS) == len(re.findall(r"\| (?:lowercased|kept) \|", TEXT)) == 36


def test_names_are_published():
    names = re.findall(r"`((?:[a-z]+bert|bert|MiniLM|all-MiniLM|ModernBERT)[\w.-]+)`", TEXT)
    assert {name for name in names if not name.startswith("keras")} <= MODELS.keys()


def test_statements_about_all_models_are_true():
    assert f"all {len(MODELS)} published models" in TEXT
    lengths = {name: EncoderConfig.named(name).max_length for name in MODELS}
    assert {name: length for name, length in lengths.items() if length != 512} == {
        "ModernBERT-base": 8192,
        "ModernBERT-large": 8192,
        "longformer-base-4096": 4096,
        "longformer-large-4096": 4096,
        "bigbird-roberta-base": 4096,
        "bigbird-roberta-large": 4096,
        **dict.fromkeys([name for name in MODELS if "gpt2" in name], 1024),
    }
    restricted = {name for name, m in MODELS.items() if m.license not in ("Apache-2.0", "MIT")}
    assert {re.split("[-_]", name)[0] for name in restricted} == {"spanbert", "bert"}
    assert all("finnish" in name for name in restricted if not name.startswith("spanbert"))
    assert sum(name.startswith("bert_uncased_L-") for name in MODELS) == 24
