"""What several files of tests of tasks begin with."""

import pytest

from tests.tasks.helpers import encoder, tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model directory of a tiny encoder."""
    directory = tmp_path_factory.mktemp("base")
    encoder().save_pretrained(directory)
    tokenizer().save_pretrained(directory)
    return directory
