"""Simulated machines: Linux network namespaces with one address each."""

import contextlib
import os
import shutil
import subprocess

import pytest


@contextlib.contextmanager
def machines(count):
    """Yields a dict of name -> address of namespaces connected by a bridge.

    They share files and processors, but not addresses, ports or this machine's loopback interface.
    Skips the test where namespaces cannot be created; that requires Linux, `ip` and root.
    """
    if not shutil.which("ip"):
        pytest.skip("there is no command `ip`")
    bridge = f"kb{os.getpid()}"
    addresses = {f"{bridge}n{index}": f"10.213.0.{index + 1}" for index in range(count)}
    with contextlib.ExitStack() as stack:
        try:
            _ip("link", "add", bridge, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no bridge can be made: {error.stderr.decode().strip()}")
        stack.callback(_ip, "link", "delete", bridge)
        _ip("link", "set", bridge, "up")
        for index, (name, address) in enumerate(addresses.items()):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
            port = f"{bridge}p{index}"
            _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", port, "master", bridge, "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in "eth0", "lo":
                _ip("-n", name, "link", "set", device, "up")
        yield addresses


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
