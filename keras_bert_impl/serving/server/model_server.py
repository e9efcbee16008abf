"""The HTTP server: endpoints, limits for clients, and Prometheus metrics."""

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import prometheus_client as prometheus
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from keras_bert_impl.serving.server.batching import Batcher
from keras_bert_impl.serving.server.cache import CacheMetrics, Submit, cached
from keras_bert_impl.serving.server.connections import HttpServer, Protocol
from keras_bert_impl.serving.server.feedback import Feedback, Scores, why_not_stored
from keras_bert_impl.serving.server.hosts import Hosts
from keras_bert_impl.serving.server.model import Limits, Model, load, read_description
from keras_bert_impl.serving.server.versions import Folder, Versions
from keras_bert_impl.serving.server.wire import (
    ApiError,
    parse_request,
    read_inputs,
    write_error,
    write_outputs,
)
from keras_bert_impl.utils.io.cache import Cache
from keras_bert_impl.utils.io.paths import version_of

# As in TensorFlow Serving's `model_servers/http_rest_api_util.cc`.
_WHICH = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION = rf"/v1/models/(?P<name>[^/:]+){_WHICH}:(?P<method>classify|regress|predict|feedback)"
_STATUS = rf"/v1/models(?:/(?P<name>[^/:]+))?{_WHICH}(?P<metadata>/metadata)?"
_PAGE = Path(__file__).with_name("page.html")
_PAGE_RULES = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'"
}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class ModelServer:
    """Serves the newest version of a model."""

    def __init__(
        self,
        folder: Folder,
        limits: Limits = Limits(),
        poll_seconds: float = 2.0,
        report: Callable[[str], None] = print,
        feedback: str | Path | None = None,
        allowed_hosts: Iterable[str] = (),
        trust_graph: bool = False,
    ) -> None:
        self.limits = limits
        self.versions = Versions(folder, self._load_version, report)
        self._allowed_hosts = allowed_hosts
        self._trust_graph = trust_graph
        self._poll_seconds = poll_seconds
        self._metrics = _Metrics(self.versions)
        self._feedback = feedback and Feedback(feedback, self._metrics.set_scores)
        self._batcher = Batcher(
            limits.max_batch, limits.batch_timeout, limits.max_waiting, self._metrics.batch.observe
        )
        self._submit: Submit = self._batcher.submit
        if limits.cache_bytes:
            cache = Cache(limits.cache_bytes)
            self._metrics.add_cache(cache)
            self._submit = cached(self._submit, cache)
        self._metrics.queue.set_function(lambda: len(self._batcher))
        self._json = ThreadPoolExecutor(1, "json")  # A single thread limits the memory for parsing.
        self._held = 0  # total size of the bodies of all requests in bytes
        config = uvicorn.Config(
            self._build_application(),
            loop="asyncio",
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=2 * limits.max_connections,  # `on_tick` closes waiting connections
            timeout_keep_alive=int(limits.client_seconds),
            timeout_graceful_shutdown=limits.stop_seconds,
        )
        self._server = HttpServer(config, limits)

    def load(self) -> None:
        """Loads the newest version that can be loaded, if any."""
        self.versions.load_newest()
        if self._feedback and self.versions.current is not None:
            self._feedback.start(self.versions.current)

    def _load_version(self, directory: Path, version: int) -> Model:
        description = read_description(directory, self._trust_graph, self.versions.folder.path)
        if self._feedback:
            self._feedback.check(description)
        return load(directory, version, description)

    def start_grpc(self, address: str) -> int:
        """Starts the gRPC server, which stops when `run` returns. Returns the port."""
        # This import needs the extra `serving`.
        from keras_bert_impl.serving.server import grpc_service

        server, port = grpc_service.start(
            address, self.versions, self._submit, self.limits, self._metrics.count
        )
        self._server.stop_grpc = lambda: server.stop(self.limits.stop_seconds).wait
        return port

    def run(self, listener: socket.socket) -> bool:
        """Serves HTTP requests until SIGTERM, SIGINT or a call of `stop`.

        Returns False if a background thread is still running.
        """
        # Nagle's algorithm would delay the body, which is written after the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._hosts = Hosts(listener.getsockname()[0], self._allowed_hosts)
        self.versions.watch(self._poll_seconds)
        try:
            self._server.run([listener])
        finally:
            self._json.shutdown(wait=False, cancel_futures=True)
            ended = [self._batcher.stop(1.0), self.versions.stop(1.0)]
        return all(ended)

    def stop(self) -> None:
        """Stops the server when all running requests have finished. Any thread can call it."""
        self._server.should_exit = True

    # === Endpoints ===

    def _build_application(self):
        routes = [
            Route("/", self._show_page),
            Route("/healthz", self._wrap_endpoint("health", self._report_health)),
            Route("/readyz", self._wrap_endpoint("ready", self._check_ready)),
            Route("/metrics", self._metrics.page),
            Route("/v1/{path:path}", self._wrap_endpoint("v1", self._handle_v1), methods=_METHODS),
        ]
        application = Starlette(
            routes=routes, exception_handlers={HTTPException: _handle_http_error}
        )
        # A redirect would contain the client's Host header.
        application.router.redirect_slashes = False

        async def check_hosts(scope: Any, receive: Any, send: Any) -> None:
            answer: Any = application
            request = Request(scope)
            if error := self._hosts.error(request.method, request.headers):
                self._metrics.count("refused", 403, 0.0)
                answer = _make_response(403, write_error(error))
            await answer(scope, receive, send)

        return check_hosts

    def _wrap_endpoint(
        self, method: str, answer: Callable[[Request], Awaitable[str]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Returns a handler that converts errors to JSON responses and updates the metrics."""

        async def respond(request: Request) -> Response:
            begun = time.monotonic()
            try:
                response = _make_response(200, await answer(request))
            except ApiError as error:
                response = _make_response(error.status, write_error(str(error)))
            except ClientDisconnect:
                response = Response(status_code=499)  # the client has disconnected
            except asyncio.CancelledError:  # after `stop_seconds`
                response = _make_response(503, write_error("The server is stopping."))
            except Exception as error:
                text = f"The server failed: {type(error).__name__}."
                response = _make_response(500, write_error(text))
            label = getattr(request.state, "method", method)
            self._metrics.count(label, response.status_code, time.monotonic() - begun)
            return response

        return respond

    async def _show_page(self, request: Request) -> Response:
        """Returns the page at `/`, a form for predictions."""
        name = json.dumps(self.versions.name).replace("<", "\\u003c")
        return HTMLResponse(_PAGE.read_text("utf-8").replace("{served}", name), headers=_PAGE_RULES)

    async def _report_health(self, request: Request) -> str:
        return '{"status": "ok"}'

    async def _check_ready(self, request: Request) -> str:
        since = self._batcher.busy_since
        if since is not None and time.monotonic() - since > self.limits.seconds:
            raise ApiError(
                "The model has been running a batch for longer than the time limit.", "UNAVAILABLE"
            )
        if self.versions.current is None:
            raise ApiError("No version is loaded.", "UNAVAILABLE")
        return f'{{"status": "ok", "version": {self.versions.current.version}}}'

    async def _handle_v1(self, request: Request) -> str:
        path, is_read = request.url.path, request.method in ("GET", "HEAD")
        pattern = _STATUS if is_read else _PREDICTION
        match = re.fullmatch(pattern, path, re.IGNORECASE | re.ASCII)
        if match is None or not (is_read or request.method == "POST"):
            raise ApiError(f"Malformed request: {request.method} {path[:200]}")
        parts = match.groupdict()
        if not parts["name"]:
            raise ApiError("Missing model name in request.")
        if parts["label"]:
            raise ApiError(f"Unrecognized servable version label: {parts['label']}")
        version = None if parts["version"] is None else version_of(parts["version"])
        if version is None and parts["version"] is not None:
            raise ApiError(f"Failed to convert version: {parts['version'][:100]} to numeric.")
        if not is_read:
            request.state.method = parts["method"].lower()
            if request.state.method == "feedback":
                return await self._label(request, parts["name"])
            if request.state.method != "predict":
                raise ApiError(f"Method {request.state.method} is not supported. Use predict.")
            return await self._run_prediction(request, parts["name"], version)
        if parts["metadata"]:
            request.state.method = "metadata"
            return self._describe_model(parts["name"], version)
        request.state.method = "status"
        states = self.versions.status(parts["name"], version)
        return json.dumps({"model_version_status": states})

    def _describe_model(self, name, version):
        model = self.versions.find(name, version)
        spec = {"name": name, "signature_name": "", "version": str(model.version)}
        # The key is repeated, as in TensorFlow Serving.
        signatures = {"signature_def": {"signature_def": model.metadata}, **model.decisions}
        return json.dumps({"model_spec": spec, "metadata": signatures})

    async def _run_prediction(self, request, name, version):
        async with self._read_body(request) as body:
            try:
                return await asyncio.wait_for(
                    self._compute_answer(body, name, version), self.limits.seconds
                )
            except TimeoutError:
                raise ApiError("The model took too long.", "DEADLINE_EXCEEDED") from None

    async def _label(self, request, name):
        model = self.versions.find(name, None)  # labels may arrive after a new version was loaded
        if not self._feedback:
            raise ApiError(why_not_stored(model), "UNIMPLEMENTED")
        # A form on a web page can send other types without the consent of this server.
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError("Feedback must have the Content-Type application/json.", status=415)
        async with self._read_body(request) as body:
            return await asyncio.get_running_loop().run_in_executor(
                self._json, self._feedback.add, body
            )

    async def _compute_answer(self, body, name, version):
        loop, expires = asyncio.get_running_loop(), time.monotonic() + self.limits.seconds

        def read():
            parsed = parse_request(body)
            model = self.versions.find(name, version)
            signature = model.signature(parsed.signature)
            arrays = read_inputs(parsed, signature.inputs, self.limits.max_rows)
            return model, signature, arrays, parsed

        def write():
            request_id = None
            if self._feedback:
                request_id = self._feedback.remember(model, signature, arrays, outputs)
            return write_outputs(outputs, parsed.by_row, request_id)

        model, signature, arrays, parsed = await loop.run_in_executor(self._json, read)
        outputs = await asyncio.wrap_future(self._submit(signature, arrays, expires))
        return await loop.run_in_executor(self._json, write)

    @contextlib.asynccontextmanager
    async def _read_body(self, request: Request) -> AsyncIterator[bytes]:
        """Context manager that yields the body of a request.

        Until the context ends, the size of the body counts toward the limit for all requests.
        """
        limit = self.limits.max_bytes
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise ApiError("Compressed requests are not supported.", status=415)
        length = int(request.headers.get("content-length", 0))
        body = bytearray()

        async def read():
            async for part in request.stream():
                body.extend(part)
                self._held += len(part)
                if len(body) > limit:  # `Protocol` discards the rest.
                    break
                if self._held > 16 * limit:
                    raise ApiError(
                        "The server is busy: the bodies of the running requests are too large.",
                        "UNAVAILABLE",
                    )

        try:
            if length <= limit:
                await asyncio.wait_for(read(), self.limits.client_seconds)
            if max(length, len(body)) > limit:
                raise ApiError(f"The request is larger than {limit} bytes.", status=413)
            yield bytes(body)
        except TimeoutError:
            raise ApiError("The request did not arrive in time.", status=408) from None
        finally:
            self._held -= len(body)


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{error.detail}: {request.method} {request.url.path[:200]}"
    return _make_response(error.status_code, write_error(text))


def _make_response(status: int, text: str) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(text, status, headers, media_type="application/json")


class _Metrics:
    """Counters for Prometheus, in a separate registry."""

    def __init__(self, versions: Versions) -> None:
        self._registry = prometheus.CollectorRegistry()
        to_all: dict[str, Any] = {"namespace": "keras_bert", "registry": self._registry}
        self._requests = prometheus.Counter(
            "requests", "Requests by API method and status.", ["method", "code"], **to_all
        )
        self._seconds = prometheus.Histogram(
            "request_seconds", "Time of requests.", ["method"], **to_all
        )
        self.batch = prometheus.Histogram(
            "batch_rows", "Rows of batches.", buckets=[2**n for n in range(11)], **to_all
        )
        self.queue = prometheus.Gauge("queue_length", "Waiting requests.", **to_all)
        version = prometheus.Gauge("model_version", "Served version.", ["model"], **to_all)
        version.labels(versions.name).set_function(lambda: getattr(versions.current, "version", 0))
        failed = prometheus.Gauge(
            "failed_versions", "Versions whose files cannot be loaded.", ["model"], **to_all
        )
        failed.labels(versions.name).set_function(lambda: len(versions.refused))
        self._scores = {
            name: prometheus.Gauge(f"feedback_{name}", text, ["version"], **to_all)
            for name, text in (
                ("rows", "Number of labels from which the scores are computed."),
                ("accuracy", "Accuracy on the most recent predictions with a label."),
                ("macro_f1", "Macro F1 on the most recent predictions with a label."),
            )
        }

    def set_scores(self, version: int, scores: Scores) -> None:
        for name, value in scores._asdict().items():
            self._scores[name].labels(version).set(value)

    def count(self, method: str, status: int | str, seconds: float) -> None:
        """Counts a finished request with its HTTP status or gRPC code."""
        self._requests.labels(method, status).inc()
        self._seconds.labels(method).observe(seconds)

    def add_cache(self, cache: Cache) -> None:
        self._registry.register(CacheMetrics(cache))

    async def page(self, request: Request) -> Response:
        text = prometheus.generate_latest(self._registry)
        return Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)
