"""Host names and web pages from which a server accepts requests."""

import ipaddress
import re
from collections.abc import Iterable, Mapping

from keras_bert_impl.io.errors import shown

_HOST = r"(\[[0-9a-f:.]+\]|[^][:@/]+)(?::\d*)?"


class Hosts:
    """Checks the headers `Host` and `Origin` of requests.

    A web page can send requests to a server on the same machine, even under a name of its own that
    resolves to 127.0.0.1.

    Args:
        address: address on which the server listens. Without `allowed`, only requests to a loopback
            address are checked.
        allowed: names in addition to localhost and loopback addresses.
    """

    def __init__(self, address: str, allowed: Iterable[str] = ()) -> None:
        self._allowed = {name.lower() for name in allowed}
        self._is_checked = bool(self._allowed) or _is_loopback(address)

    def error(self, method: str, headers: Mapping[str, str]) -> str | None:
        """Returns why a request is refused, or None."""
        if not self._is_checked:
            return None
        for header, pattern in (("Host", _HOST), ("Origin", f"https?://{_HOST}")):
            is_required = header == "Host"
            value = headers.get(header, "")
            if not is_required and ("origin" not in headers or method in ("GET", "HEAD")):
                continue
            match = re.fullmatch(pattern, value.lower())
            if match is None or not (_is_loopback(match[1]) or match[1] in self._allowed):
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
