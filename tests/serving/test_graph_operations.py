"""SavedModels of other programs: operations, damaged files and links, checked before loading."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_bert_impl.checkpoints.config import ADAPTER_KINDS
from keras_bert_impl.serving import check
from keras_bert_impl.serving.graph_operations import GRAPH, OPERATIONS, read_graph
from keras_bert_impl.serving.graphs.together import SeveralSignatures
from keras_bert_impl.serving.saved_model import for_inference, prediction_log
from keras_bert_impl.serving.server.model import Limits, load, read_description, read_warmup
from keras_bert_impl.serving.server.wire import ApiError
from keras_bert_impl.tasks import EncoderSignatures, TokenClassifier
from keras_bert_impl.tokenizers import Tokenizer
from keras_bert_impl.utils.errors import InputError
from tests.serving import network_models
from tests.serving.families import ENTITIES, FAMILIES, signatures_of
from tests.tasks.helpers import classifier, encoder, tokenizer
from tests.tokenizers.kinds import KINDS

raw = tf.raw_ops
SPARSE = [
    {"architecture": "longformer", "window": 2, "max_global_tokens": 8, "num_segments": 1},
    {"architecture": "big_bird", "block_size": 2},
]
ADAPTERS = [{"adapter": {"kind": kind, "size": 2}} for kind in ADAPTER_KINDS]


def of_encoder(**settings):
    return EncoderSignatures(encoder(**settings), tokenizer())


def of_quantized(mode):
    model = classifier()
    model.quantize(mode)
    return model.signatures()


def exported(folder):
    """Yields the signatures of everything that can be exported, with random weights."""
    yield from map(signatures_of, FAMILIES)
    for kind in network_models.ARCHITECTURES:
        yield EncoderSignatures(network_models.encoder(kind), tokenizer())
    for settings in (*SPARSE, *ADAPTERS):
        yield of_encoder(**settings)
    for dtype in ("bfloat16", "mixed_float16", "float16", "float64"):
        yield classifier(dtype=dtype, long_texts="attention").signatures()
    yield from map(of_quantized, ("int8", "int4"))
    yield SeveralSignatures({name: classifier().signatures() for name in "ab"})
    for settings in ({"buckets": [(1, 8), (4, 16)]}, {"whole_batches": True}):
        signatures = signatures_of("single_label")
        vars(signatures).update(settings)
        yield signatures
    for kind in KINDS:
        path = folder / kind
        path.mkdir()
        KINDS[kind](path).save_pretrained(path / "saved")
        pieces = Tokenizer.from_pretrained(path / "saved")
        small = encoder(vocabulary_size=pieces.vocabulary_size)
        signatures = TokenClassifier(small, pieces, labels=ENTITIES).signatures()
        for custom_ops in (True, False):
            signatures.custom_ops = custom_ops
            yield signatures


def _operations(graph):
    functions = [node.op for function in graph.library.function for node in function.node_def]
    return {*functions, *(node.op for node in graph.node)}


def operations_of(signatures):
    """Returns the operations of all signatures of an export."""
    with for_inference(*signatures.models):
        functions = signatures.functions().values()
    return set().union(*(_operations(function.graph.as_graph_def()) for function in functions))


@pytest.mark.parametrize("settings", [SPARSE[0], ADAPTERS[-1], {"dtype": "mixed_bfloat16"}, "int4"])
def test_exports_have_listed_operations(settings):
    export = of_encoder(**settings) if isinstance(settings, dict) else of_quantized(settings)
    assert operations_of(export) <= OPERATIONS


@pytest.mark.slow
def test_all_exports_have_listed_operations(tmp_path):
    for signatures in exported(tmp_path):
        assert operations_of(signatures) <= OPERATIONS


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
        results = [output for output in tf.nest.flatten(operation(text)) if output is not None]
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

    reference = staticmethod(lambda text: [{"text": f"{string}!"} for string in text])


def test_a_trusted_graph_runs(tmp_path, monkeypatch, plain):
    monkeypatch.chdir(tmp_path)
    directory = save(tmp_path / "1", FORBIDDEN["WriteFile"])
    load(directory, 1, read_description(directory, trust_graph=True))
    assert (tmp_path / "written").read_text() == "x"
    for trusted, folder in ((True, directory), (False, plain)):
        assert check.largest_difference(_Echo, folder, {"text": ["a"]}, trusted) == 0


def _with_label(text):
    return [{"text": f"{string}!", "label": "a"} for string in text]


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


def _call_saver(saved):
    *_, saver = _functions(saved, "save")
    for function in _functions(saved):
        for node in function.node_def:
            if node.op == "StatefulPartitionedCall":
                node.attr["f"].func.name = saver.signature.name


def _list_saver_as_signature(saved):
    for node in saved.meta_graphs[0].object_graph_def.nodes:
        if node.HasField("bare_concrete_function"):
            name = _functions(saved, "save")[0].signature.name
            node.bare_concrete_function.concrete_function_name = name


def _name_another_saver(saved):
    saved.meta_graphs[0].saver_def.save_tensor_name = "serving_default_text:0"


def _functions(saved, name=""):
    functions = saved.meta_graphs[0].graph_def.library.function
    return [function for function in functions if name in function.signature.name]


EDITS = [
    *[(edit, "'MergeV2Checkpoints', 'SaveV2'")
      for edit in (_call_saver, _list_saver_as_signature, _name_another_saver)],
    (lambda saved: saved.meta_graphs[0].ClearField("object_graph_def"), "TensorFlow 1"),
    (lambda saved: saved.meta_graphs.add(), "TensorFlow 1"),
    (lambda saved: saved.meta_graphs[0].graph_def.node.add(op="ReadFile"), "'ReadFile'"),
    (lambda saved: _functions(saved)[0].node_def.add(op="readfile"), "'readfile'"),
]  # fmt: skip


@pytest.mark.parametrize("edit, message", EDITS)
def test_edited_graphs_are_rejected(tmp_path, plain, edit, message):
    saved = SavedModel.FromString((plain / GRAPH).read_bytes())
    (tmp_path / GRAPH).write_bytes(saved.SerializeToString())
    read_graph(tmp_path)
    edit(saved)
    (tmp_path / GRAPH).write_bytes(saved.SerializeToString())
    with pytest.raises(InputError, match=message):
        read_graph(tmp_path)


def test_warmup_requests_of_too_many_values_are_rejected(monkeypatch):
    monkeypatch.setattr(Limits, "max_bytes", 3)
    small, large = (
        prediction_log("m", "signature", {"text": np.array(["a"] * size, object)})
        for size in (3, 4)
    )
    assert read_warmup(small)[1]["text"].shape == (3,)
    with pytest.raises(ValueError, match="too many values"):
        read_warmup(large)


def test_links_out_of_the_folder_are_rejected(tmp_path, plain):
    shutil.copytree(plain, tmp_path / "models" / "1")
    outside = (tmp_path / "models" / "1" / "variables").rename(tmp_path / "outside")
    (tmp_path / "models" / "1" / "variables").symlink_to(outside)
    for trusted in (False, True):
        with pytest.raises(ApiError, match="variables links to a folder outside"):
            read_description(tmp_path / "models" / "1", trusted)
    description = read_description(tmp_path / "models" / "1", root=tmp_path)
    assert load(tmp_path / "models" / "1", 1, description).version == 1
