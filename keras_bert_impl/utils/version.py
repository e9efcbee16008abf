"""The version of the package, compatible versions of dependencies, and the install command."""

import json
from importlib import metadata
from pathlib import Path
from typing import NamedTuple
from urllib.request import url2pathname

from packaging.version import Version

__version__ = "0.1.0"
DISTRIBUTION = "keras-bert-impl"


class Minors(NamedTuple):
    """A range of minor versions of a package, such as 3.12 to 3.15."""

    package: str
    first: str
    last: str

    def covers(self, version: str) -> bool:
        """Returns whether a version is in the range.

        Accepts release candidates and nightly builds.
        """
        first, last = Version(self.first), Version(self.last)
        return first.release <= Version(version).release[:2] <= last.release

    @property
    def requirement(self) -> str:
        if self.first == self.last:
            return f"{self.package}=={self.first}.*"
        major, minor = Version(self.last).release
        return f"{self.package}>={self.first},<{major}.{minor + 1}"


class Combination(NamedTuple):
    """Compatible versions of packages, and the tested builds."""

    python: Minors
    package: Minors
    companion: Minors | None  # None if there is no build for this Python version
    tested_with: str


_PYTHON = Minors("python", "3.11", "3.13")
_TENSORFLOW, _TEXT = "tensorflow", "tensorflow-text"
COMBINATIONS = tuple(
    Combination(*row)
    for row in (
        (_PYTHON, Minors(_TENSORFLOW, "2.20", "2.20"), Minors(_TEXT, "2.20", "2.20"), "releases"),
        (_PYTHON, Minors(_TENSORFLOW, "2.21", "2.21"), Minors(_TEXT, "2.21", "2.21"), "releases"),
        (_PYTHON, Minors(_TENSORFLOW, "2.22", "2.22"), Minors(_TEXT, "2.22", "2.22"), "2.22.0rc0, nightly"),
        (Minors("python", "3.14", "3.14"), Minors(_TENSORFLOW, "2.22", "2.22"), None, "2.22.0rc0"),
        (_PYTHON, Minors("keras", "3.12", "3.15"), Minors("keras-hub", "0.25", "0.32"), "releases"),
        (_PYTHON, Minors("keras", "3.15", "3.16"), Minors("keras-hub", "0.33", "0.33"), "nightlies"),
    )
)  # fmt: skip


def companions_of(package: str, version: str) -> list[Minors]:
    """Returns the versions of another package that work with a version of this one."""
    return [
        companion
        for _, minors, companion, _ in COMBINATIONS
        if companion and minors.package == package and minors.covers(version)
    ]


def install_command(extras: str = "", options: str = "") -> str:
    """Returns the `pip install` command for extras, from the origin of this installation.

    The origin is a package index, a checkout, a wheel or a repository.
    """
    is_editable = _read_origin().get("dir_info", {}).get("editable")
    options = f"{options} -e".strip() if is_editable else options
    return " ".join(filter(None, ["pip install", options, f'"{_format_target(extras)}"']))


def wheel_command(directory: str) -> str | None:
    """Returns the command that builds a wheel, or None if the package is from a package index."""
    return (
        f'pip wheel --no-deps --wheel-dir "{directory}" "{_format_target()}"'
        if _read_origin()
        else None
    )


def pinned_requirement(extras: str) -> str:
    """Returns the requirement for this version.

    If the package is not from a package index, the requirement is a wheel in the current
    directory.
    """
    if not _read_origin():
        return f"{DISTRIBUTION}[{extras}]=={__version__}"
    wheel = f"{DISTRIBUTION.replace('-', '_')}-{__version__}-py3-none-any.whl"
    return f"./{wheel}[{extras}]"


def _format_target(extras=""):
    """Returns the requirement that installs or builds this package from its origin."""
    brackets = f"[{extras}]" if extras else ""
    origin = _read_origin()
    place = origin.get("url", "")
    if not place:
        return f"{DISTRIBUTION}{brackets}"
    if "dir_info" in origin:  # The origin is a folder.
        return f"{url2pathname(place.removeprefix('file://'))}{brackets}"
    system = origin.get("vcs_info", {}).get("vcs")
    return f"{DISTRIBUTION}{brackets} @ {f'{system}+' if system else ''}{place}"


def _read_origin():
    """Returns pip's direct_url.json (PEP 610). Empty if the package is from a package index."""
    try:
        recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # The package is not installed.
        checkout = Path(__file__).resolve().parents[2]
        return {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    return json.loads(recorded or "{}")
