"""An export to a full disk prints one line that names the directory, and leaves no files."""

import pytest

from keras_bert_impl.models.conversion.formats import convert
from keras_bert_impl.serving import export_saved_model, export_version
from keras_bert_impl.tasks import TextClassifier
from keras_bert_impl.utils.errors import InputError
from tests.helpers import small_disk
from tests.tasks import helpers

FULL = "(No space left on device|File too large). Nothing was written"


@pytest.fixture(scope="module")
def large():
    """A classifier of 6 MB."""
    encoder = helpers.encoder(intermediate_dim=48_000)
    return TextClassifier(encoder, helpers.tokenizer(), labels=["a", "b"])


def export(kind, model, directory):
    if kind == "saved_model":
        export_saved_model(model.signatures(), directory)
    elif kind == "version":
        export_version(model.signatures(), directory)
    elif kind == "onnx":
        pytest.importorskip("keras_bert_impl.serving.onnx").export_onnx(model, directory)
    elif kind == "openvino":
        module = pytest.importorskip("keras_bert_impl.serving.openvino")
        module.export_openvino(model, directory)
    elif kind == "litert":
        pytest.importorskip("keras_bert_impl.serving.litert").export_litert(model, directory)
    elif kind == "model":
        model.save_pretrained(directory)
    else:
        model.save_pretrained(directory.parents[1] / "model")
        convert(directory.parents[1] / "model", directory, kind)


@pytest.mark.parametrize(
    "kind",
    ["saved_model", "version", "onnx", "openvino", "litert", "model", "google", "huggingface"],
)
def test_reports_a_full_disk(large, tmp_path, kind):
    disk = tmp_path / "disk"
    with small_disk(disk):
        with pytest.raises(InputError, match=f"cannot write {disk}/exported(/1)?: {FULL}"):
            export(kind, large, disk / "exported")
        assert list(disk.iterdir()) == []
