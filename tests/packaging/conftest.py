"""The folder in which this process builds and installs, once for all tests."""

import pytest


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wheel")
