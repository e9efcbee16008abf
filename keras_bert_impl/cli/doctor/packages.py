"""Versions of the packages that this one requires, and distributions that clash with it."""

import platform
import re
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version

from keras_bert_impl.cli.doctor.findings import Problem, Section
from keras_bert_impl.version import __version__

DISTRIBUTION = "keras-bert-impl"
_COMMAND, _ENTRY_POINT = "keras-bert", "keras_bert_impl.cli.main:main"
_OF_DEVELOPERS = ("test", "docs", "notebooks")  # extras that no command needs
_SHOWN = ("keras", "tensorflow", "tensorflow-text", "keras-hub", "numpy")


def check_packages() -> list[Section]:
    """Returns the sections of the required and of the optional packages."""
    required = Section("packages", {"python": platform.python_version()})
    optional = Section("optional packages")
    required.facts[DISTRIBUTION] = __version__
    required.facts |= {name: version_of(name) or "not installed" for name in _SHOWN}
    names = set()  # of what is always required: extras only narrow its range
    for extra, requirement in _requirements():
        if extra is None:
            names.add(requirement.name)
            _check_required(requirement, required)
        elif requirement.name not in names:
            _check_optional(requirement, extra, optional)
    required.problems += [*_tensorflow_text_problems(), *_clashes()]
    return [required, optional]


def version_of(name: str) -> str | None:
    """Returns the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requirements():
    """Yields (extra or None, requirement) of this platform, those without an extra first."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a checkout
        return
    for line in lines:
        requirement = Requirement(line)
        extra = next(iter(re.findall(r'extra == "([\w-]+)"', line)), None)
        marker = requirement.marker
        is_needed = marker is None or marker.evaluate({"extra": extra or ""})
        if is_needed and extra not in _OF_DEVELOPERS:
            yield extra, requirement


def _check_required(requirement, section):
    version = version_of(requirement.name)
    if version is None:
        what = f"{requirement.name} is not installed."
        section.problems.append(Problem(what, _install(requirement)))
    elif not _is_in_range(version, requirement):
        what = f"{requirement.name} is {version}, and must be {requirement.specifier}."
        section.problems.append(Problem(what, _install(requirement)))


def _check_optional(requirement, extra, section):
    version = version_of(requirement.name)
    section.facts[requirement.name] = version or f"not installed; extra {extra}"
    if version is not None and not _is_in_range(version, requirement):
        what = (
            f"{requirement.name} is {version}, and must be {requirement.specifier} for the extra "
            f"{extra}."
        )
        section.problems.append(Problem(what, _install(requirement), is_failure=False))


def _is_in_range(version, requirement):
    return requirement.specifier.contains(version, prereleases=True)


def _install(requirement):
    return f"pip install '{requirement.name}{requirement.specifier}'"


def _tensorflow_text_problems():
    tensorflow, text = version_of("tensorflow"), version_of("tensorflow-text")
    if tensorflow and text and _minor(tensorflow) != _minor(text):
        yield Problem(
            f"tensorflow-text {text} does not work with tensorflow {tensorflow}: the first two "
            "numbers must be equal.",
            f"pip install 'tensorflow-text=={'.'.join(map(str, _minor(tensorflow)))}.*'",
        )


def _minor(version):
    return Version(version).release[:2]


def _clashes():
    """Yields a problem for each other distribution that has our command or our package."""
    for point in metadata.entry_points(group="console_scripts", name=_COMMAND):
        if point.value != _ENTRY_POINT:
            other = getattr(point.dist, "name", point.value)
            yield Problem(
                f"{other} also installs a command {_COMMAND}; the last one installed is run.",
                f"pip uninstall {other}, or type python -m keras_bert_impl.cli.main",
            )
    names = set(metadata.packages_distributions().get("keras_bert_impl", ()))
    for other in sorted(names - {DISTRIBUTION}):
        yield Problem(
            f"{other} also installs a package keras_bert_impl, over ours.",
            f"pip uninstall {other}; pip install --force-reinstall --no-deps {DISTRIBUTION}",
        )
    if version_of("keras-bert") is not None:
        yield Problem(
            "keras-bert is installed, another project, with the package keras_bert. Its name is "
            "that of our command, but it does not disturb it.",
            "pip uninstall keras-bert, if it is not meant",
            is_failure=False,
        )
