"""Fixtures for several test files of tasks."""

import pytest

from tests.tasks.helpers import save_base


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A model directory of a tiny encoder."""
    return save_base(tmp_path_factory.mktemp("base"))
