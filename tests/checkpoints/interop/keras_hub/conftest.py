"""Leaves out the tests with KerasHub where it is not installed, such as on Python 3.14."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("keras_hub") else ["test_*.py"]
