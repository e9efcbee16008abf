"""`keras-bert input-worker`: makes batches for pre-training on other machines."""

import socket
from argparse import ArgumentParser, Namespace
from typing import Any

from keras_bert_impl.cli.common import positive_int, say

EXAMPLE = "  keras-bert input-worker --port 5050"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "--host",
        metavar="NAME",
        help="this machine's name, as other machines reach it; default: its host name",
    )
    parser.add_argument(
        "--port",
        type=positive_int,
        default=5050,
        metavar="N",
        help="first of two ports to use",
    )


def run(arguments: Namespace) -> None:
    """Serves until stopped."""
    host = arguments.host or socket.gethostname()
    server = start(host, arguments.port)
    say(f"--input-workers [grpc://{host}:{arguments.port}]")
    server.join()


def start(host: str, port: int) -> Any:
    """Starts and returns a tf.data service with one worker, which ends with the process."""
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=port))
    worker = service.WorkerServer(
        service.WorkerConfig(
            dispatcher_address=f"localhost:{port}",
            worker_address=f"{host}:{port + 1}",
            port=port + 1,
        )
    )
    worker.dispatcher = dispatcher  # keeps it from being garbage-collected
    return worker
