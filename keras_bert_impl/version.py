"""The version of the package, and the command that installs more of its extras."""

import json
from importlib import metadata
from pathlib import Path
from urllib.request import url2pathname

__version__ = "0.1.0"
DISTRIBUTION = "keras-bert-impl"


def install_command(extras: str = "", options: str = "") -> str:
    """Returns the `pip install` line that works for this installation.

    A package from an index is installed by its name, and any other from where it came from: a
    checkout, a wheel or a repository.

    Args:
        extras: names of extras, such as `"serve,serving"`.
        options: options of pip.
    """
    brackets = f"[{extras}]" if extras else ""
    origin = _origin()
    place, info = origin.get("url", ""), origin.get("dir_info")
    if not place:
        target = f"{DISTRIBUTION}{brackets}"
    elif info is not None:  # a folder
        options = f"{options} -e".strip() if info.get("editable") else options
        target = f"{url2pathname(place.removeprefix('file://'))}{brackets}"
    else:
        system = origin.get("vcs_info", {}).get("vcs")
        target = f"{DISTRIBUTION}{brackets} @ {f'{system}+' if system else ''}{place}"
    return " ".join(filter(None, ["pip install", options, f'"{target}"']))


def _origin():
    """Returns what pip recorded about the origin (PEP 610); nothing if that is an index."""
    try:
        recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # imported from a checkout that is not installed
        checkout = Path(__file__).resolve().parents[1]
        return {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    return json.loads(recorded or "{}")
