"""SavedModels of other programs: operations, damaged files and links, checked before loading."""

import shutil
from types import SimpleNamespace

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_bert_impl.io.errors import InputError
from keras_bert_impl.serving import check
from keras_bert_impl.serving.graph_operations import GRAPH, read_graph
from keras_bert_impl.serving.server.model import load, read_description
from keras_bert_impl.serving.server.wire import ApiError

raw = tf.raw_ops
FORBIDDEN = {
    "ReadFile": lambda text: raw.ReadFile(filename="secret"),
    "WriteFile": lambda text: raw.WriteFile(filename="written", contents="x"),
    "MatchingFiles": lambda text: raw.MatchingFiles(pattern="/*"),
    "SaveV2": lambda text: raw.SaveV2(
        prefix="written", tensor_names=["x"], shape_and_slices=[""], tensors=[text]
    ),
    "RestoreV2": lambda text: raw.RestoreV2(
        prefix="secret", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.string]
    ),
    "MergeV2Checkpoints": lambda text: raw.MergeV2Checkpoints(
        checkpoint_prefixes=["secret"], destination_prefix="written"
    ),
    "PyFunc": lambda text: tf.numpy_function(bytes, [text], tf.string),
    "EagerPyFunc": lambda text: tf.py_function(str, [text], tf.string),
    "PrintV2": lambda text: tf.print(text, output_stream="file://written"),
    "TFRecordDataset": lambda text: raw.TFRecordDataset(
        filenames="secret", compression_type="", buffer_size=0
    ),
    "DataServiceDatasetV2": lambda text: raw.DataServiceDatasetV2(
        **{"dataset_id": 0, "processing_mode": "", "address": "example.org:80", "protocol": "grpc"},
        **{"job_name": "", "consumer_index": 0, "num_consumers": 0, "max_outstanding_requests": 1},
        iteration_counter=raw.DummyIterationCounter(),
        **{"output_types": [tf.string], "output_shapes": [[]]},
    ),
}


def save(directory, operation=lambda text: None):
    """Saves a model with a variable, which runs an operation and then returns its texts."""
    module = tf.Module()
    module.variable = tf.Variable("!")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def serve(text):
        results = [one for one in tf.nest.flatten(operation(text)) if one is not None]
        with tf.control_dependencies(results):
            return {"text": tf.strings.join([text, module.variable])}

    module.serve = serve
    tf.saved_model.save(module, str(directory), signatures={"serving_default": serve})
    return directory


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return save(tmp_path_factory.mktemp("plain") / "1")


@pytest.mark.parametrize("name", FORBIDDEN)
def test_operations_of_no_export_are_rejected_by_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    directory = save(tmp_path / "1", FORBIDDEN[name])
    with pytest.raises(InputError, match=rf"1/saved_model.pb contains .*'{name}'.*--trust-graph"):
        read_graph(directory)
    with pytest.raises(ApiError, match=name):
        load(directory, 1)
    with pytest.raises(InputError, match=name):
        check.largest_difference(_Echo, directory, {"text": ["a"]})
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    read_graph(directory, trust_graph=True)


class _Echo:
    """Stands for the signatures of a model."""

    reference = staticmethod(lambda text: [{"text": f"{one}!"} for one in text])


def test_a_trusted_graph_runs(tmp_path, monkeypatch, plain):
    monkeypatch.chdir(tmp_path)
    directory = save(tmp_path / "1", FORBIDDEN["WriteFile"])
    load(directory, 1, read_description(directory, trust_graph=True))
    assert (tmp_path / "written").read_text() == "x"
    for trusted, folder in ((True, directory), (False, plain)):
        assert check.largest_difference(_Echo, folder, {"text": ["a"]}, trusted) == 0


def _with_label(text):
    return [{"text": f"{one}!", "label": "a"} for one in text]


@pytest.mark.parametrize(
    "reference, operation, message",
    [
        (_with_label, None, "has other outputs than the model"),
        (lambda text: _Echo.reference(text * 2), None, "has other outputs than the model"),
        (
            _Echo.reference,
            lambda text: tf.print(text, output_stream="file:///dev/stdout"),
            "cannot be run",
        ),
        (_Echo.reference, lambda text: tf.debugging.Assert(False, ["no"]), "cannot be run"),
    ],
)
def test_a_graph_with_other_outputs(tmp_path, plain, reference, operation, message):
    directory = save(tmp_path / "1", operation) if operation else plain
    model = SimpleNamespace(reference=reference)
    with pytest.raises(InputError, match=f"{directory} {message}"):
        check.largest_difference(model, directory, {"text": ["a"]}, trust_graph=True)


def test_a_damaged_file_is_named(tmp_path, plain):
    directory = shutil.copytree(plain, tmp_path / "1")
    for name, named in (
        ("variables/variables.index", directory),
        ("variables/variables.data-00000-of-00001", directory),
        (GRAPH, directory / GRAPH),
    ):
        content = (directory / name).read_bytes()
        (directory / name).write_bytes(b"x" * len(content))
        with pytest.raises(ApiError, match=str(named)):
            load(directory, 1)
        (directory / name).unlink()
        with pytest.raises(ApiError, match=str(directory)):
            load(directory, 1)
        (directory / name).write_bytes(content)


def edited(plain, tmp_path, edit):
    """Returns a copy of a SavedModel, whose graph a function has changed."""
    shutil.copytree(plain, tmp_path / "1")
    path = tmp_path / "1" / GRAPH
    saved = SavedModel.FromString(path.read_bytes())
    edit(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())
    return tmp_path / "1"


def _saver(graph):
    return next(f for f in graph.graph_def.library.function if "save" in f.signature.name)


def _call_saver(graph):
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            if node.op == "StatefulPartitionedCall":
                node.attr["f"].func.name = _saver(graph).signature.name


def _list_saver_as_signature(graph):
    for node in graph.object_graph_def.nodes:
        if node.HasField("bare_concrete_function"):
            node.bare_concrete_function.concrete_function_name = _saver(graph).signature.name


def _name_another_saver(graph):
    graph.saver_def.save_tensor_name = "serving_default_text:0"


@pytest.mark.parametrize("edit", [_call_saver, _list_saver_as_signature, _name_another_saver])
def test_the_saver_is_called_by_nobody_else(tmp_path, plain, edit):
    read_graph(plain)
    with pytest.raises(InputError, match="'MergeV2Checkpoints', 'SaveV2'"):
        read_graph(edited(plain, tmp_path, edit))


def test_a_graph_of_tensorflow_1_is_rejected(tmp_path, plain):
    directory = edited(plain, tmp_path, lambda graph: graph.ClearField("object_graph_def"))
    with pytest.raises(InputError, match="TensorFlow 1"):
        read_graph(directory)


def test_links_out_of_the_folder_are_rejected(tmp_path, plain):
    shutil.copytree(plain, tmp_path / "models" / "1")
    outside = (tmp_path / "models" / "1" / "variables").rename(tmp_path / "outside")
    (tmp_path / "models" / "1" / "variables").symlink_to(outside)
    for trusted in (False, True):
        with pytest.raises(ApiError, match="variables links to a folder outside"):
            read_description(tmp_path / "models" / "1", trusted)
    description = read_description(tmp_path / "models" / "1", root=tmp_path)
    assert load(tmp_path / "models" / "1", 1, description).version == 1
