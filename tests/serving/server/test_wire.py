"""JSON to arrays and back."""

import json

import numpy as np
import pytest

from keras_bert_impl.serving.server.wire import (
    ApiError,
    Input,
    PredictRequest,
    parse_request,
    read_inputs,
    write_outputs,
)


def read(values, dtype="float32", shape=(None,), max_rows=100):
    request = PredictRequest("", values, False)
    return read_inputs(request, {"x": Input(np.dtype(dtype), shape)}, max_rows)["x"]


@pytest.mark.parametrize("value", [3.5, 0.1, 3, 9e6, 3e-5, 1 / 3, 2**24 - 1, 3.4e38, 1e-45])
def test_decimals_have_few_digits_and_are_exact(value):
    """The shortest that read as the same float32; never an integer."""
    (read,) = json.loads(write_outputs({"x": np.array([value], "float32")}, True))["predictions"]
    assert type(read) is float and np.float32(read) == np.float32(value)
    assert repr(read) == repr(float(str(np.float32(value))))


def test_numbers_that_are_not_finite_have_names():
    answer = write_outputs({"x": np.array([np.nan, np.inf, -np.inf], "float32")}, by_row=True)
    assert answer == '{"predictions": [NaN, Infinity, -Infinity]}'


def test_other_types_are_written():
    outputs = {
        "a": np.array([True, False]),
        "b_bytes": np.array([b"\xff", b""], object),
        "c": np.array([b'"\n\xc3\xa9', b"\xff"], object),
        "d": np.array([1 / 3, 2], "float64"),
        "e": np.zeros([2, 0, 3], "int64"),
    }
    expected = {
        "a": [True, False],
        "b_bytes": [{"b64": "/w=="}, {"b64": ""}],
        "c": ['"\n\u00e9', "\ufffd"],
        "d": [1 / 3, 2.0],
        "e": [[], []],
    }
    assert json.loads(write_outputs(outputs, by_row=False))["outputs"] == expected
    rows = json.loads(write_outputs(outputs, by_row=True))["predictions"]
    assert rows == [dict(zip(expected, row)) for row in zip(*expected.values())]
    only = {"x": np.arange(4).reshape(2, 2)}
    assert json.loads(write_outputs(only, by_row=False)) == {"outputs": [[0, 1], [2, 3]]}
    assert json.loads(write_outputs({"x": np.zeros([0, 2])}, by_row=True)) == {"predictions": []}


def test_outputs_without_a_batch_are_no_rows():
    with pytest.raises(ApiError, match="different batch sizes"):
        write_outputs({"a": np.zeros(2), "b": np.zeros(3)}, by_row=True)
    assert json.loads(write_outputs({"a": np.float32(1)}, by_row=False)) == {"outputs": 1.0}


def test_values_are_read():
    np.testing.assert_array_equal(read([1, 0.5, float("inf")]), np.array([1, 0.5, np.inf], "f4"))
    assert np.isnan(read([float("nan")])[0])
    assert read([[1, 2]], "int32", (None, None)).dtype == np.int32
    assert read([True], "bool").tolist() == [True]
    assert read(["a", {"b64": "/w"}], "object").tolist() == [b"a", b"\xff"]
    assert read([], "int32", (None, None)).shape == (0, 0)
    assert read(7, "int64", ()).shape == ()


@pytest.mark.parametrize(
    "values, dtype, message",
    [
        ([2**24], "float32", "16777216 to float32 without loss of precision"),
        ([1e39], "float32", "without loss of precision"),
        ([2**31], "int32", "not of expected type: int32"),
        ([-1], "uint8", "not of expected type: uint8"),
        ([1.0], "int32", "Type: Number is not of expected type: int32"),
        ([True], "int32", "Type: Bool is not of expected type"),
        ([True], "float32", "Type: Bool is not of expected type"),
        ([None], "object", "Type: Null is not of expected type: string"),
        ([{"b64": 1}], "object", "Type: Object is not of expected type: string"),
        ([1], "bool", "not of expected type: bool"),
        (["1"], "float32", "Type: String"),
        (1, "float32", r"must have the shape \[\?\]. Received: \[\]"),
        ([[1]], "float32", r"must have the shape \[\?\]. Received: \[1, 1\]"),
        ([1] * 101, "float32", "has 101 rows, but the maximum of this server is 100"),
    ],
)
def test_other_values_are_refused(values, dtype, message):
    with pytest.raises(ApiError, match=message):
        read(values, dtype)


def test_ragged_lists_are_refused():
    for values in ([[1, 2], [3]], [[1], 2], [[1], [[2]]]):
        with pytest.raises(ApiError):
            read(values, "int32", (None, None))


@pytest.mark.parametrize(
    "body, message",
    [
        (b'{"instances": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"instances": ' + b"[" * 200 + b"]" * 200 + b"}", "nested too deeply"),
        (b'{"instances": [' + b"1" * 5000 + b"]}", "too many digits"),
        (b'{"instances": [1], "instances": [2]}', "twice"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"\0", "not valid JSON"),
        (b"NaN", "Is not object"),
    ],
)
def test_hostile_json_is_refused(body, message):
    with pytest.raises(ApiError, match=message):
        parse_request(body)
