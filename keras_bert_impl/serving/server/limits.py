"""What clients of the server can use."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """What clients can use.

    Attributes:
        max_batch: rows of a batch of several requests.
        batch_timeout: seconds that a request waits for others.
        max_rows: rows of a request.
        max_bytes: bytes of a request; all requests together may hold 16 times as many.
        max_waiting: requests in the queue.
        max_connections: open connections.
        seconds: from the last byte of a request to its answer.
        client_seconds: for a client to send a request or to receive an answer, and that it may
            leave a connection idle.
        stop_seconds: to answer what runs when the server is stopped.
    """

    max_batch: int = 32
    batch_timeout: float = 0.002
    max_rows: int = 1024
    max_bytes: int = 4 << 20
    max_waiting: int = 256
    max_connections: int = 512
    seconds: float = 30.0
    client_seconds: float = 30.0
    stop_seconds: int = 30
