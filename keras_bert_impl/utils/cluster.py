"""Reads the workers of a run from the environment variable `TF_CONFIG`."""

import dataclasses
import json
import os
import re
from typing import Any

from keras_bert_impl.utils.errors import InputError
from keras_bert_impl.utils.io.reading import parse_json_line

_KINDS = ("chief", "worker")
EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The addresses of all processes of a run, and the task of this process, from `TF_CONFIG`."""

    # task type, `"chief"` or `"worker"`, -> list of `"host:port"`
    addresses: dict[str, list[str]]
    kind: str  # task type of this process
    index: int  # index of this process among the tasks of its type

    @property
    def num_workers(self) -> int:
        return sum(map(len, self.addresses.values()))

    @property
    def is_chief(self) -> bool:
        return (self.kind, self.index) == ("chief" if "chief" in self.addresses else "worker", 0)

    @property
    def own_address(self) -> str:
        return self.addresses[self.kind][self.index]

    @property
    def everyone(self) -> list[str]:
        """Addresses of all workers, the chief first."""
        return [*self.addresses.get("chief", []), *self.addresses.get("worker", [])]

    @property
    def others(self) -> dict[str, str]:
        """Addresses of all tasks except this one, keyed by name, such as `"worker 1"`."""
        return {
            address: f"{kind} {index}"
            for kind, addresses in self.addresses.items()
            for index, address in enumerate(addresses)
            if address != self.own_address
        }


def read_cluster() -> Cluster | None:
    """Reads `TF_CONFIG`; returns None if it contains no cluster."""
    text = os.environ.get("TF_CONFIG") or "{}"
    config = parse_json_line(text, "the environment variable TF_CONFIG")
    if not isinstance(config, dict):
        raise _make_error("must be an object", config)
    if config.get("cluster", {}) == {}:
        return None
    addresses = _read_addresses(config["cluster"])
    kind, index = _read_task(config.get("task"), addresses)
    return Cluster(addresses, kind, index)


def _read_addresses(cluster):
    if not isinstance(cluster, dict):
        raise _make_error("must have an object as cluster", cluster)
    for kind, addresses in cluster.items():
        if kind not in _KINDS:
            raise _make_error("supports only the task types chief and worker", kind)
        if not isinstance(addresses, list) or not addresses:
            raise _make_error(f"must have a list of addresses for the task type {kind}", addresses)
        for address in addresses:
            host_and_port(address)
    everyone = [address for addresses in cluster.values() for address in addresses]
    twice = next((address for address in everyone if everyone.count(address) > 1), None)
    if twice is not None:
        raise _make_error("must not list an address twice", twice)
    if len(cluster.get("chief", [])) > 1:
        raise _make_error("must have at most one chief", cluster["chief"])
    return cluster


def host_and_port(address: Any) -> tuple[str, int]:
    """Splits `"host:port"`. The host may be an IPv6 address in brackets."""
    if isinstance(address, str):
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([\w.-]+)):([0-9]{1,5})", address)
        if match and not address.startswith("-") and 0 < int(match[3]) < 2**16:
            return match[1] or match[2], int(match[3])
    raise _make_error('must contain addresses such as "host1:2222"', address)


def _read_task(task, addresses):
    if not isinstance(task, dict):
        raise _make_error("must have an object as task, for this process", task)
    kind, index = task.get("type"), task.get("index")
    if not isinstance(kind, str) or kind not in addresses:
        raise _make_error(f"must have {' or '.join(addresses)} as task type", kind)
    if isinstance(index, str) and re.fullmatch("[0-9]{1,9}", index):
        index = int(index)
    if type(index) is not int or not 0 <= index < len(addresses[kind]):
        last = len(addresses[kind]) - 1
        raise _make_error(f"must have a task index from 0 to {last} for a {kind}", index)
    return kind, index


def _make_error(rule, received):
    text = json.dumps(received)
    text = text if len(text) < 200 else f"{text[:200]}..."
    return InputError(
        f"the environment variable TF_CONFIG {rule}, as in {EXAMPLE}. Received: {text}"
    )
