"""Fixtures for several test files of tagging."""

import pytest

from tests.helpers import randomize


@pytest.fixture(scope="module")
def with_crf():
    # Imported here: its tokenizer starts TensorFlow, whose devices tests/conftest.py sets later.
    from tests.tasks.tagging.helpers import tagger

    model = tagger(scale=0.3, crf=True)
    randomize(model.crf_layer, scale=3.0)
    return model
