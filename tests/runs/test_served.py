"""Loading models for export."""

import numpy as np
import pytest

from keras_bert_impl import Adapter, Encoder, TextClassifier
from keras_bert_impl.runs.evaluation import load_model
from keras_bert_impl.training.tuning import save_tuned
from tests.tasks.helpers import save_base


@pytest.mark.parametrize("use", [None, "encoder", "embedder"])
def test_finds_a_base_that_has_moved(tmp_path, use):
    base = save_base(tmp_path / "base")
    adapter = Adapter("lora", size=2)
    model = TextClassifier.from_pretrained(base, labels=["a", "b"], adapter=adapter)
    save_tuned(model, tmp_path / "tuned", base)
    moved = (tmp_path / "base").rename(tmp_path / "moved")
    loaded = load_model(tmp_path / "tuned", use, base=moved)
    encoder = loaded if isinstance(loaded, Encoder) else loaded.encoder
    features = {"token_ids": np.array([[2, 5, 6, 3]])}
    states = [each(features)["sequence_output"] for each in (encoder, model.encoder)]
    np.testing.assert_allclose(*states, atol=1e-6)
