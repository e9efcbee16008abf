"""Fixtures for several test files of tuning."""

import pytest

from tests.tasks.helpers import save_base


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model directory of a tiny encoder with two layers."""
    return save_base(tmp_path_factory.mktemp("base"), num_layers=2)
