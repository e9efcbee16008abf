"""What several files of tests of tuning begin with."""

import pytest

from tests.tasks import helpers


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model directory of a tiny encoder with two layers."""
    directory = tmp_path_factory.mktemp("base")
    helpers.encoder(num_layers=2).save_pretrained(directory)
    helpers.tokenizer().save_pretrained(directory)
    return directory
