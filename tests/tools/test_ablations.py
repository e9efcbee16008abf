"""tools/bench/ablations.py: the BiLSTM heads, and the tables of results."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.tasks.helpers import encoder, tokenizer

ROOT = Path(__file__).resolve().parents[2]
ROW = {"token_ids": [[2, 5, 6, 3, 0]], "segment_ids": [[0] * 5], "padding_mask": [[1, 1, 1, 1, 0]]}


@pytest.fixture(scope="module")
def modules():
    """Modules of tools/bench, which is not a package."""
    sys.path.insert(0, str(ROOT / "tools" / "bench"))
    names = ("ablations", "ablation_tuning", "finetuning", "finetuning_tasks")
    yield [importlib.import_module(name) for name in names]
    sys.path.remove(str(ROOT / "tools" / "bench"))
    for name in names:
        del sys.modules[name]


def test_a_bilstm_over_a_left_to_right_encoder_sees_all_tokens_and_no_padding(modules):
    models = [
        model_class(encoder(causal=True, dropout=0.0), tokenizer(), num_classes=2)
        for model_class in modules[1].CLASSIFIERS["bilstm"]
    ]
    row = {name: np.array(values, "int32") for name, values in ROW.items()}

    def changed(model, position, token):
        other = {name: values.copy() for name, values in row.items()}
        other["token_ids"][0, position] = token
        logits, before = model(other)[0], model(row)[0]
        if logits.ndim == 2:
            logits, before = logits[:4], before[:4]
        return ~np.isclose(logits, before, rtol=0, atol=1e-7).all(axis=-1)

    for model in models:
        for position in range(4):
            assert np.all(changed(model, position, 7)), position
        assert not np.any(changed(model, 4, 7))


def test_tables_have_the_means_over_seeds(modules):
    def pretrained(seed, loss):
        curve = [{"step": 400, "val_loss": loss, "val_masked_lm_accuracy": 0.25}]
        return {"objective": "masked_lm", "seed": seed, "vector": None, "curve": curve}

    def tuned(name, vector, seed, accuracy):
        scores = {"sst2": {"accuracy": accuracy}}
        return {"objective": name, "seed": seed, "vector": vector, "scores": scores}

    results = [
        pretrained(1, 3.0),
        pretrained(2, 5.0),
        tuned("masked_lm", "own", 1, 0.5),
        tuned("masked_lm", "own", 2, 0.7),
        tuned("masked_lm", "own", 3, 0.6),
        tuned("left_to_right", "bilstm", 1, 0.25),
    ]
    scores = modules[0].table_of_scores(results).splitlines()
    assert scores[0] == "| pre-trained by | classified | sst2, accuracy |"
    assert scores[2:] == [
        "| `masked_lm` | own | 60.00 ± 10.00 (3) |",
        "| `left_to_right` | bilstm | 25.00 (1) |",
    ]
    curves = modules[0].table_of_curves(results).splitlines()
    assert curves[-2:] == ["| loss | 4.000 |", "| masked_lm_accuracy | 0.250 |"]
