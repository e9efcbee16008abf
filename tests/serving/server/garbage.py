"""Requests that nobody would send, over HTTP and gRPC, and what becomes of them."""

import base64
import json
import random

import grpc
import numpy as np

PREDICT = "/tensorflow.serving.PredictionService/Predict"
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "\u00e9", ""]
PATHS = ["/v1/models/", "/v1/", "/", "/metrics", "/healthz", "*", ""]
ENDS = [
    "",
    ":predict",
    ":classify",
    "/metadata",
    "/versions/1:predict",
    "/versions/99",
    "/%00",
    "?a",
]
HEADERS = ["Content-Length: -1", "Content-Length: 5", "Transfer-Encoding: chunked", "Upgrade: websocket",
           "Connection: Upgrade", "Expect: 100-continue", "Content-Encoding: gzip", "Host: localhost",
           "X: " + "y" * 70_000, "\u00e9: \u00e9", ": ", "Content-Type: text/html"]  # fmt: skip
PARTS = ["{", "}", "[", "]", ",", ":", '"', '"instances"', '"inputs"', '"signature_name"', '"ids"',
         '"text"', "1", "-1", "1e999", "NaN", "null", "true", '"good"', '{"b64":"/w=="}', "\\u0000",
         '"\\ud800"', '"token_ids"', "[[[[", "9" * 50]  # fmt: skip
BODIES = [
    {"instances": ["good"]},
    {"signature_name": "pairs", "instances": [{"first": "a", "second": "b"}]},
    {"inputs": {"text": ["a", "b"]}},
    {
        "signature_name": "ids",
        "instances": [{"token_ids": [2, 3], "segment_ids": [0, 0], "padding_mask": [1, 1]}],
    },
]


def head(path, *headers, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    lines += ["Connection: close"] if method == "POST" else []
    return "\r\n".join([*lines, "", ""]).encode()


def garbage(draw, path):
    """(bytes of a request, whether it is whole HTTP): any bytes, or nearly a good request.

    Args:
        path: of the model.
    """
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(draw.randrange(300)), False
    if kind == 1:
        method, path = draw.choice(METHODS), draw.choice([path, *PATHS]) + draw.choice(ENDS)
        lines = [f"{method} {path} HTTP/{draw.choice(['1.1', '1.0', '9', ''])}"]
        lines += draw.sample(HEADERS, draw.randrange(4))
        return "\r\n".join([*lines, "", ""]).encode() + draw.randbytes(draw.randrange(20)), False
    body = json.dumps(draw.choice(BODIES)).encode()
    if kind == 2:
        body = "".join(draw.choices(PARTS, k=draw.randrange(20))).encode()
    elif kind == 3:
        body = draw.randbytes(draw.randrange(200))
    elif kind == 4:
        text = base64.b64encode(draw.randbytes(draw.randrange(50))).decode()
        body = json.dumps({"instances": [{"b64": text}] * draw.randrange(3)}).encode()
    elif kind > 5:
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(body))
            new = draw.choice([b"", draw.randbytes(1), draw.choice(PARTS).encode()])
            body = body[:at] + new + body[at + draw.randrange(3) :]
    path += draw.choice([":predict"] * 6 + ENDS)
    size = len(body) + (draw.random() < 0.02) * draw.randrange(-5, 5)
    return head(path, f"Content-Length: {size}") + body, 0 <= size <= len(body)


def send_garbage(client, count, seed=0):
    """Sends random requests; returns how often each status was answered."""
    draw, counts = random.Random(seed), {}
    for _ in range(count):
        request, is_whole = garbage(draw, client.path)
        answer = client.raw(request, ends=not is_whole)
        status = answer[9:12].decode() if answer else "none"
        assert not answer or answer.startswith(b"HTTP/1.1 "), (request, answer)
        assert status[0] in "24" or not is_whole, (request, answer)
        assert status[0] in "24" or status in ("none", "100"), (request, answer)
        counts[status] = counts.get(status, 0) + 1
    return counts


def send_damaged_messages(port, good, count, seed=0):
    """Sends damaged copies of a gRPC request; returns how often each code was answered.

    Args:
        good: bytes of the request.
    """
    draw, counts = np.random.default_rng(seed), {}
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(PREDICT)
        for _ in range(count):
            damaged = bytearray(good)
            for _ in range(draw.integers(1, 5)):
                damaged[draw.integers(len(damaged))] = draw.integers(256)
            try:
                call(bytes(damaged[: draw.integers(1, len(damaged) + 1)]), timeout=30)
                code = "OK"
            except grpc.RpcError as error:
                code = error.code().name
            counts[code] = counts.get(code, 0) + 1
    return counts
