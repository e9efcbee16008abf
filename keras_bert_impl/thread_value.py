"""A value that holds inside a context, for the thread that entered it."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class ThreadValue(threading.local):
    """A value of each thread, so that models in several threads do not see each other's."""

    def __init__(self, value: Any) -> None:  # called again in each thread, with the same value
        self.value = value

    @contextlib.contextmanager
    def set(self, value: Any) -> Iterator[None]:
        """Context in which this thread has another value."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before
