"""Sends random requests to a SavedModel; run as a separate program, since it may crash.

    python -m tests.serving.fuzz DIRECTORY --inputs 1000 --ranks '{"text": 1, "ids": 2}'

Uses the C API or, with `--server`, gRPC or REST requests to a running server. Prints the numbers of
answered and refused requests as JSON. Every answer must have a row per example and only finite
numbers; a sample is written to a file, for comparison with the model.
"""

import argparse
import base64
import http.client
import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np

TOOLS = Path(__file__).parents[2] / "tools" / "serving"
WORDS = "good bad film a the is great [MASK] [CLS] don't U.S.A.".split()
WORDS += ["\u65e5\u672c", "\u00e9t\u00e9", "\U0001f600"]
SPACES = [" ", "  ", "\t", "\n", "\u3000", "\u200b", "\0", ""]
SAMPLES = 100  # maximum number of requests written


def load_tool(name="c_api"):
    """Imports a module of `tools/serving`, which is not a package."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


c_api = load_tool()


class Refused(Exception):
    """The request was refused with an error message."""


# === Random requests ===


def random_text(draw):
    """Returns bytes: words, any characters, or any bytes."""
    size = int(draw.choice([0, 1, 5, 30, 300], p=[0.1, 0.2, 0.4, 0.25, 0.05]))
    kind = draw.integers(4)
    if kind == 0:
        return draw.bytes(size)
    if kind == 1:  # includes lone surrogates, which are invalid in UTF-8
        codes = draw.integers(0, 0x110000, size)
        return "".join(map(chr, codes)).encode("utf-8", "surrogatepass")
    if kind == 2:
        return "".join(map(chr, draw.integers(0, 128, size))).encode()
    picks = zip(draw.choice(WORDS, size), draw.choice(SPACES, size))
    return "".join(word + space for word, space in picks).encode()


def random_strings(draw, rank):
    """Returns an object array, occasionally of a wrong rank."""
    most = 7 if draw.random() < 0.8 else 65
    shape = (int(draw.integers(0, most)), *draw.integers(0, 4, rank - 1))
    if draw.random() < 0.05:
        shape = tuple(draw.integers(0, 3, draw.integers(0, 4)))
    flat = [random_text(draw) for _ in range(int(np.prod(shape)))]
    array = np.empty(len(flat), object)
    array[:] = flat
    return array.reshape(shape)


def random_ids(draw, names, rank):
    """Returns a dict of arrays, occasionally with invalid ids, or a wrong dtype, shape or rank."""
    shape = tuple(draw.integers(1, 6, rank - 1)) + (int(draw.integers(1, 33)),)
    if draw.random() < 0.1:
        shape = tuple(draw.integers(0, 40, draw.integers(0, 4)))
    limits = {"token_ids": 19, "input_word_ids": 19}
    arrays = {}
    for name in names:
        dims = shape if draw.random() > 0.02 else tuple(draw.integers(0, 3, draw.integers(0, 4)))
        dtype = "int32" if draw.random() > 0.02 else draw.choice(["int64", "float32"])
        low, high = (0, limits.get(name, 2)) if draw.random() > 0.1 else (-(2**31), 2**31 - 1)
        arrays[name] = draw.integers(low, high, dims).astype(dtype)
    return arrays


def random_request(draw, takes, ranks):
    """Returns a dict of arrays for a signature."""
    if all(dtype == c_api.STRING for _, dtype in takes.values()):
        strings = {name: random_strings(draw, ranks.get(name, 1)) for name in takes}
        if len(strings) > 1 and draw.random() > 0.05:  # equal numbers of texts
            count = min(len(s) if s.ndim else 0 for s in strings.values())
            strings = {name: s[:count] if s.ndim else s for name, s in strings.items()}
        if draw.random() < 0.02:
            strings[next(iter(strings))] = np.zeros(2, "int32")
        return strings
    return random_ids(draw, takes, ranks.get("ids", 2))


def size_of(request):
    """Returns the number of examples in a request."""
    return max((len(values) if values.ndim else 0 for values in request.values()), default=0)


# === Clients ===


def ask_session(directory):
    """Returns a function that queries a SavedModel through the C API."""
    model = c_api.Model(directory)

    def ask(signature, request):
        try:
            return model.ask(signature, **request)
        except c_api.Failure as failure:
            raise Refused(str(failure)) from failure

    return ask


def ask_grpc(port, name):
    """Returns a function that queries a server through the stubs of TensorFlow Serving."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def ask(signature, request):
        message = predict_pb2.PredictRequest()
        message.model_spec.name, message.model_spec.signature_name = name, signature
        for key, values in request.items():
            message.inputs[key].CopyFrom(tf.make_tensor_proto(values))
        try:
            response = service.Predict(message, timeout=60.0)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                raise
            raise Refused(error.details()) from error
        return {key: tf.make_ndarray(value) for key, value in response.outputs.items()}

    return ask


def ask_rest(port, name):
    """Returns a function that queries a server over HTTP, in the columnar format."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(signature, request):
        inputs = {key: _as_json(values.tolist()) for key, values in request.items()}
        body = json.dumps({"signature_name": signature, "inputs": inputs})
        connection.request("POST", f"/v1/models/{name}:predict", body)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status == 400:
            raise Refused(answer["error"])
        assert response.status == 200, (response.status, answer)
        outputs = answer["outputs"]
        if not isinstance(outputs, dict):  # a single output comes without its name
            outputs = {"": outputs}
        return {key: _as_array(values) for key, values in outputs.items()}

    return ask


def _as_array(values):
    array = np.array(values)
    # A numpy string array strips trailing NULs.
    return np.array(values, object) if array.dtype.kind == "U" else array


def _as_json(values):
    if isinstance(values, list):
        return [_as_json(value) for value in values]
    return {"b64": base64.b64encode(values).decode()} if isinstance(values, bytes) else values


# === The run ===


def check(request, answer):
    """Raises an `AssertionError` unless every example has a row of finite numbers."""
    for name, values in answer.items():
        assert len(values) == size_of(request), (name, values.shape)
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), (name, values)


def as_text(array):
    """Converts an array to nested lists, with bytes as str that can be converted back."""
    if array.dtype != object or isinstance(next(array.flat, None), str):
        return array.tolist()
    return np.vectorize(lambda text: text.decode("utf-8", "surrogateescape"), "O")(array).tolist()


def signatures_in(directory):
    """The signatures of a SavedModel; like `c_api.read_signatures`, but without a session."""
    saved_model = (Path(directory) / "saved_model.pb").read_bytes()
    return c_api.read_signatures(load_tool("wire").read_fields(saved_model)[2][0])


def run(ask, signatures, ranks, inputs, seed, sample):
    """Sends requests until `inputs` examples are sent; returns a dict of counts."""
    draw, sent, written, messages = np.random.default_rng(seed), 0, 0, {}
    counts = {"answered": 0, "refused": 0}
    while sent < inputs:
        signature = str(draw.choice(sorted(signatures)))
        request = random_request(draw, signatures[signature][0], ranks)
        sent += max(size_of(request), 1)
        try:
            answer = ask(signature, request)
        except Refused as refused:
            counts["refused"] += 1
            text = re.sub(r"\d+", "#", str(refused).splitlines()[0])[:60]
            messages[text] = messages.get(text, 0) + 1
            continue
        check(request, answer)
        counts["answered"] += 1
        if sample and signature == "serving_default" and size_of(request) and written < SAMPLES:
            written += 1
            both = {"inputs": request, "outputs": answer}
            both = {k: {n: as_text(a) for n, a in arrays.items()} for k, arrays in both.items()}
            print(json.dumps(both), file=sample)
    return {**counts, "inputs": sent, "compared": written, "messages": messages}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", help="of the SavedModel")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=json.loads, default={}, help="of strings, and of ids")
    parser.add_argument("--server", nargs=3, metavar=("grpc|rest", "PORT", "NAME"))
    parser.add_argument("--sample", type=Path, help="file for some requests and answers")
    options = parser.parse_args()
    if options.server:
        way, port, name = options.server
        ask = {"grpc": ask_grpc, "rest": ask_rest}[way](int(port), name)
    else:
        ask = ask_session(options.directory)
    signatures = signatures_in(options.directory)
    with open(options.sample or "/dev/null", "w", encoding="utf-8") as sample:
        written = sample if options.sample else None
        counts = run(ask, signatures, options.ranks, options.inputs, options.seed, written)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
