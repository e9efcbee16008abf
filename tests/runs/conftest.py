"""The fixtures of the tests of tasks."""

from tests.tasks.conftest import base  # noqa: F401
