"""`keras-bert serve`: serves an exported model over HTTP, as TensorFlow Serving does."""

import errno
import gc
import importlib.util
import os
import re
import signal
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from urllib.parse import quote

from keras_bert_impl.cli.common import (
    OUTPUT_DIRECTORY,
    OUTPUT_FILE,
    SAVED_MODEL,
    import_tensorflow_quietly,
    positive_int,
    say,
)
from keras_bert_impl.cli.parser import Command, Rare
from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.version import install_command, wheel_command

_PACKAGES = ("uvicorn", "starlette", "prometheus_client")


class Serve(Command):
    example = (
        "  keras-bert serve models/reviews\n"
        '  curl -d \'{"instances": ["a joy"]}\' localhost:8501/v1/models/reviews:predict'
    )
    uses_tensorflow = False  # Folder and port are checked before the import.

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument_group("model and address").add_argument
        add(
            "folder",
            type=SAVED_MODEL,
            help="directory that `keras-bert export` wrote, or a SavedModel",
        )
        add(
            "--name",
            metavar="NAME",
            help="name of the model in URLs; default: the directory's name",
        )
        add(
            "--host",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="address to listen on; 0.0.0.0 for all addresses",
        )
        add("--port", type=_parse_port, default=8501, metavar="N", help="port; 0 for any free port")
        add(
            "--allowed-hosts",
            type=_check_host_name,
            action="append",
            default=[],
            metavar="NAME",
            help="name of this server in requests, in addition to localhost; may be repeated; "
            "default: only localhost if --host is a loopback address, otherwise any",
        )
        add(
            "--grpc-port",
            type=_parse_port,
            metavar="N",
            help="port of the gRPC API; 0 for any free port; default: no gRPC",
        )
        add(
            "--feedback",
            type=OUTPUT_FILE,
            metavar="FILE",
            help=".jsonl file for labels sent to URL:feedback",
        )
        add(
            "--trust-graph",
            action="store_true",
            help="also load a SavedModel with operations that exports of keras_bert_impl do not "
            "use; such a graph can read and write files",
        )
        add(
            "--write-docker",
            type=OUTPUT_DIRECTORY,
            metavar="DIR",
            help="write files for Docker, Compose and Kubernetes to a new directory, and exit",
        )
        group = parser.add_argument_group("batches and cache")
        _limit(group, "--max-batch", 32, "maximum rows per batch; small requests are merged")
        group.add_argument(
            "--batch-timeout",
            type=_parse_milliseconds,
            default=2.0,
            metavar="MS",
            help="milliseconds that a request waits for other requests",
        )
        group.add_argument(
            "--cache-mb",
            type=positive_int,
            metavar="N",
            help="MiB of cached responses; default: no cache",
        )
        group = parser.add_argument_group(Rare("limits"))
        _limit(group, "--max-rows", 1024, "maximum texts per request")
        _limit(group, "--max-bytes", 4 << 20, "maximum bytes per request")
        _limit(group, "--max-waiting", 256, "maximum queued requests; status 503 if exceeded")
        _limit(group, "--max-connections", 512, "open connections")
        _limit(group, "--timeout", 30, "maximum seconds until a response")
        _limit(group, "--client-timeout", 30, "maximum seconds for a client to send or receive")
        _limit(
            group, "--stop-timeout", 30, "maximum seconds to wait for running requests at shutdown"
        )
        _limit(group, "--poll", 2, "polling interval for new versions, in seconds")

    def run(self, arguments: Namespace) -> None:
        from keras_bert_impl.serving.server.versions import Folder

        if arguments.write_docker:
            self._check_defaults(arguments)
            _write_docker(arguments, Folder(arguments.folder, arguments.name))
            return
        if not all(map(importlib.util.find_spec, _PACKAGES)):
            raise InputError(f"serve requires more packages: {install_command('serve')}.")
        if arguments.grpc_port is not None and not importlib.util.find_spec("tensorflow_serving"):
            raise InputError(
                f"--grpc-port requires more packages: {install_command('serve,serving')}."
            )
        if arguments.feedback and not arguments.feedback.endswith(".jsonl"):
            raise InputError(f"--feedback must end in .jsonl. Received: {arguments.feedback}")
        folder = Folder(arguments.folder, arguments.name)
        if arguments.grpc_port:
            # A used port must raise before the model is loaded.
            listen(arguments.host, arguments.grpc_port).close()
        with listen(arguments.host, arguments.port) as listener:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: sys.exit(0))
            _serve(arguments, folder, listener)

    def _check_defaults(self, arguments):
        """Raises `InputError` for options that `--write-docker` does not write to the files."""
        parser = ArgumentParser()
        self.add_arguments(parser)
        defaults = vars(parser.parse_args([arguments.folder, "--write-docker", "."]))
        options = [
            f"--{key.replace('_', '-')}"
            for key, default in defaults.items()
            if key not in ("folder", "name", "write_docker") and vars(arguments)[key] != default
        ]
        if options:
            raise InputError(
                f"--write-docker does not write {', '.join(options)} to the files. Add the options to "
                "`command` in compose.yaml or `args` in kubernetes.yaml instead."
            )


def _write_docker(arguments, folder):
    """Writes the files for containers, and prints how to use them."""
    from keras_bert_impl.serving.deployment import write_deployment

    directory = write_deployment(folder.path, folder.name, arguments.write_docker)
    say(f"wrote Dockerfile, compose.yaml and kubernetes.yaml to {directory}. To start the server:")
    build = wheel_command(str(directory))
    start = f'docker compose -f "{directory / "compose.yaml"}" up --build'
    print("\n".join(filter(None, [build, start])))


def _limit(group, name, default, text):
    group.add_argument(name, type=positive_int, default=default, metavar="N", help=text)


def _parse_port(text):
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)


def _check_host_name(text):
    if not re.fullmatch(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", text):
        raise ArgumentTypeError(f"{text!r} is not a host name without a port")
    return text


def _parse_milliseconds(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 10_000:
        raise ArgumentTypeError(f"{text!r} is not a number of milliseconds up to 10000")
    return value


def listen(host: str, port: int) -> socket.socket:
    """Opens the port, so that clients can connect while the model is loaded."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        code = getattr(error, "errno", None)
        reason = (
            "the port is in use" if code == errno.EADDRINUSE else getattr(error, "strerror", error)
        )
        raise InputError(
            f"cannot listen on port {port} of {host}: {reason}. Choose another port."
        ) from error


def _serve(arguments, folder, listener):
    if not arguments.debug:
        import_tensorflow_quietly(alone=True)
    from keras_bert_impl.serving.server.model import Limits
    from keras_bert_impl.serving.server.model_server import ModelServer

    limits = Limits(
        max_batch=arguments.max_batch,
        batch_timeout=arguments.batch_timeout / 1000,
        max_rows=arguments.max_rows,
        max_bytes=arguments.max_bytes,
        max_waiting=arguments.max_waiting,
        max_connections=arguments.max_connections,
        seconds=arguments.timeout,
        client_seconds=arguments.client_timeout,
        stop_seconds=arguments.stop_timeout,
        cache_bytes=(arguments.cache_mb or 0) << 20,
    )
    server = ModelServer(
        folder,
        limits,
        arguments.poll,
        lambda line: say(f"{folder.name}: {line}"),
        arguments.feedback,
        arguments.allowed_hosts,
        arguments.trust_graph,
    )
    sys.setswitchinterval(0.001)  # A thread that computes delays the responses of others less.
    gc.freeze()  # Later collections skip the imported modules, so that requests do not wait.
    server.load()
    if server.versions.current is None:
        raise InputError(f"no version of {folder.path} can be loaded.")
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    if arguments.grpc_port is not None:
        grpc_port = server.start_grpc(f"{host}:{arguments.grpc_port}")
        print(f"serving gRPC on {host}:{grpc_port}")
    print(f"serving http://{host}:{port}/v1/models/{quote(folder.name)}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn handles these signals only while it runs.
        signal.signal(number, lambda *_: server.stop())
    if not server.run(listener):
        sys.stdout.flush()
        os._exit(0)  # Python's normal exit can hang or crash while a model is loading or running.
