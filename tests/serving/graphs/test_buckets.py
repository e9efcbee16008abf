"""Encoders that XLA compiles for a few shapes give the same outputs inside and beyond buckets."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.cli.main import main
from keras_bert_impl.serving import export_saved_model
from keras_bert_impl.serving.check import TOLERANCE, difference_of_rows, largest_difference
from keras_bert_impl.serving.graphs.chunks import encoders_traced_once
from keras_bert_impl.utils.errors import InputError
from tests.helpers import randomize
from tests.serving.asking import output_of
from tests.serving.families import FAMILIES, signatures_of
from tests.tasks.helpers import encoder

BUCKETS = [(4, 8), (1, 8), (2, 4)]
NAMES = ("token_ids", "segment_ids", "padding_mask")
SPEC = {name: tf.TensorSpec([None, None], tf.int32) for name in NAMES}


@pytest.fixture(scope="module")
def graphs():
    """(an encoder, its graph without buckets, its graph with buckets)."""
    model = encoder()
    randomize(model, scale=0.2)

    def traced():
        function = tf.function(lambda features: model(features, training=False), autograph=False)
        return function.get_concrete_function(SPEC)

    with encoders_traced_once(BUCKETS):
        compiled = traced()
    return model, traced(), compiled


def _compiled_sizes(function):
    """The shapes of token ids in functions that XLA must compile."""
    library = function.graph.as_graph_def().library.function
    arguments = [
        body.arg_attr[0].attr["_output_shapes"].list.shape[0].dim
        for body in library
        if body.attr["_XlaMustCompile"].b
    ]
    return {tuple(dim.size for dim in dims) for dims in arguments}


def test_only_buckets_are_compiled(graphs):
    _, plain, compiled = graphs
    assert _compiled_sizes(compiled) == set(BUCKETS)
    assert not _compiled_sizes(plain)  # the scope has ended


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (2, 4), (2, 5), (4, 8), (1, 4), (5, 2), (1, 9)])
def test_outputs_do_not_depend_on_the_bucket(graphs, shape):
    _, plain, compiled = graphs
    random = np.random.default_rng(0)
    mask = np.arange(shape[1]) < random.integers(1, shape[1] + 1, (shape[0], 1))
    features = {
        "token_ids": random.integers(1, 10, shape),
        "segment_ids": random.integers(0, 2, shape),
        "padding_mask": mask,
    }
    features = {name: tf.constant(feature, tf.int32) for name, feature in features.items()}
    expected, received = plain(features), compiled(features)
    for name, output in expected.items():
        assert received[name].shape == output.shape
        real = mask if output.shape.rank == 3 else ...
        # Sums of some 30 float32 numbers of magnitude 1, in another order.
        np.testing.assert_allclose(received[name][real], output[real], atol=5e-6)


@pytest.mark.parametrize("bucket", [(0, 8), (1, 0), (1, 1000)])
def test_rejects_buckets_that_do_not_fit(bucket):
    signatures = signatures_of("single_label")
    signatures.buckets = [bucket]
    with pytest.raises(InputError, match="a bucket must have at least 1 row, and 1 to .* tokens"):
        signatures.functions()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--out", "models/a", "--xla", "1x128;8x128"], "--xla must be shapes such as 1x128"),
        (["--out", "models/a", "--xla", ""], "the value of xla is empty"),
        (
            ["--out", "a", "--format", "onnx", "--xla", "1x128"],
            "--xla requires --format saved_model",
        ),
        (["--check", "models/a/1", "--xla", "1x128"], "--xla requires --out"),
    ],
)
def test_arguments(arguments, message, capsys):
    assert main(["export", "--model", "run", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_exports_agree_with_the_model(family, tmp_path):
    """In the C API, which servers use, and in Python."""
    signatures = signatures_of(family)
    signatures.buckets = [(1, 16), (8, 16)]
    export_saved_model(signatures, tmp_path / "model")
    inputs = FAMILIES[family][1]
    lines = output_of(["tools/serving/c_api.py", tmp_path / "model"], json.dumps(inputs))
    rows = [json.loads(line) for line in lines]
    assert difference_of_rows(signatures.reference(**inputs), rows) <= TOLERANCE
    assert largest_difference(signatures, tmp_path / "model", inputs) <= TOLERANCE
