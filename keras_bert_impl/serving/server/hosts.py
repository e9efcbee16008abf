"""Host names and web pages from which a server accepts requests."""

import ipaddress
import re
from collections.abc import Iterable, Mapping

from keras_bert_impl.utils.errors import shown

_HOST = re.compile(r"(?:https?://)?(\[[0-9a-f:.]+\]|[^][:@/]+)(?::\d*)?")


class Hosts:
    """Checks the headers `Host` and `Origin` of requests.

    A web page can send requests to a server on the same machine, even under a separate name that
    resolves to 127.0.0.1.

    Args:
        address: address on which the server listens. Without `allowed`, only a server on a loopback
            address checks requests.
        allowed: names in addition to localhost and loopback addresses.
    """

    def __init__(self, address: str, allowed: Iterable[str] = ()) -> None:
        self._allowed = {name.lower() for name in allowed}
        self._is_checked = bool(self._allowed) or _is_loopback(address)

    def error(self, method: str, headers: Mapping[str, str]) -> str | None:
        """Returns why a request is rejected, or None."""
        checked = {"Host": headers.get("host", "")}
        if "origin" in headers and method not in ("GET", "HEAD"):
            checked["Origin"] = headers["origin"]
        for header, value in checked.items() if self._is_checked else ():
            match = _HOST.fullmatch(value.lower())
            if match is None or not (match[1] in self._allowed or _is_loopback(match[1])):
                return (
                    f"The {header} header {shown(value)} is not allowed. Use localhost, or start "
                    "the server with --allowed-hosts NAME."
                )
        return None


def _is_loopback(name):
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
