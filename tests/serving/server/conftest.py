"""Exported models that several modules ask."""

import pytest

from keras_bert_impl.serving import export_version
from tests.serving.families import signatures_of
from tests.serving.server.servers import running


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Function of a family; returns its (`Signatures`, folder of versions)."""
    exports = {}

    def export(family):
        if family not in exports:
            signatures = signatures_of(family)
            folder = tmp_path_factory.mktemp("models") / family
            version = export_version(signatures, folder)
            # Saves time: instead, a row of each signature is run.
            (version / "assets.extra/tf_serving_warmup_requests").unlink()
            exports[family] = signatures, folder
        return exports[family]

    return export


@pytest.fixture(scope="module")
def reviews(exported):
    """A `Client` of a running classifier."""
    with running(exported("single_label")[1]) as client:
        yield client
