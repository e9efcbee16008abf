"""HTTP connections: limits that keep a client from delaying the responses to others."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_bert_impl.serving.server.model import Limits

_READ_BYTES = 16 << 10  # The parser does not yield to other connections within one read.
# A chunk takes as long to parse as several KiB of data. A request may have some small chunks.
_SMALL_CHUNKS, _MIN_CHUNK_BYTES = 256, 256


class HttpServer(uvicorn.Server):
    """HTTP server that disconnects slow clients. On shutdown, also stops the gRPC server."""

    # starts the shutdown of gRPC; returns a function that waits until the shutdown is complete
    stop_grpc: Callable[[], Callable[[], Any]] | None = None

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self._limits = limits
        # time at which a connection started to wait for its client
        self._waiting: dict[Any, float] = {}

    async def on_tick(self, counter: int) -> bool:
        connections: list[Any] = list(self.server_state.connections)
        now = time.monotonic()
        waiting = [
            (connection, connection.cycle, connection.flow.write_paused)
            for connection in connections
            if connection.cycle is None
            or connection.cycle.response_complete
            or connection.flow.write_paused
        ]
        self._waiting = {key: self._waiting.get(key, now) for key in waiting}
        surplus = len(connections) - self._limits.max_connections
        oldest = sorted(self._waiting.items(), key=lambda item: item[1])
        for number, ((connection, *_), since) in enumerate(oldest):
            if number < surplus or now - since > self._limits.client_seconds:
                connection.transport.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        wait = self.stop_grpc() if self.stop_grpc else None
        await super().shutdown(sockets)
        if wait:
            await asyncio.to_thread(wait)


class Protocol(H11Protocol, asyncio.BufferedProtocol):
    """Protocol of a connection that reads small blocks and rejects many small chunks."""

    conn: "_Connection"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _Connection(h11.SERVER)
        self._block = bytearray(_READ_BYTES)
        self._lingers = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Transport(transport, self.close))  # type: ignore[arg-type]

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._block

    def buffer_updated(self, nbytes: int) -> None:
        if not self._lingers:
            self.data_received(bytes(self._block[:nbytes]))

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(self.conn.complaint or msg)
        else:  # The response was sent before the rest of the request arrived.
            self.transport.abort()

    def close(self, transport: asyncio.Transport) -> None:
        """Closes a connection after its client has read the response.

        If a part of the request is unread, closing the connection would reset it. Instead, the rest
        is discarded until the client closes the connection, or for `timeout_keep_alive` seconds.
        """
        if self._lingers or self.conn.their_state not in (h11.SEND_BODY, h11.ERROR):
            transport.close()
            return
        self._lingers = True
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        with contextlib.suppress(OSError):  # The client has disconnected.
            transport.write_eof()
        self.loop.call_later(self.timeout_keep_alive, transport.abort)


class _Transport:
    """Wraps a transport to replace `close`."""

    def __init__(
        self, transport: asyncio.Transport, close: Callable[[asyncio.Transport], None]
    ) -> None:
        self._transport = transport
        self._close = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if not self._transport.is_closing():
            self._close(self._transport)


class _Connection(h11.Connection):
    complaint = ""  # why the connection rejected a request
    _num_chunks = _num_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._num_chunks = self._num_bytes = 0
        elif isinstance(event, h11.Data):
            self._num_chunks += event.chunk_start
            self._num_bytes += len(event.data)
            if self._num_chunks > _SMALL_CHUNKS + self._num_bytes // _MIN_CHUNK_BYTES:
                self.complaint = "The chunks of the request are too small. Send larger chunks."
                raise h11.RemoteProtocolError(self.complaint)
        return event
