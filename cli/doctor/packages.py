"""What is installed against what `pyproject.toml` asks for: the base, and each extra."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ...protocol.extras import EXTRAS
from .findings import Finding

PACKAGE: Final = "rayvous"
FOR: Final[Mapping[str, str]] = {
    "demo": "the flights that rayvous demo publishes",
    "gateway": "clients outside Ray",
    "plots": "figures of the papers",
    "postgresql": "stores of brokers in PostgreSQL",
    "spark": "reports and audits in Spark, through RayDP",
}
"""What an extra is for, where its name does not say it."""


def look() -> Iterator[Finding]:
    """Look at the Python that this is and at what is installed in it."""
    about = metadata.metadata(PACKAGE)
    yield python(platform.python_version(), about["Requires-Python"] or "")
    asked = [Requirement(line) for line in metadata.requires(PACKAGE) or ()]
    yield from base(asked, installed)
    for name in EXTRAS:
        yield of_extra(name, asked, installed)


def installed(name: str) -> str | None:
    """Return the version of a package that is installed here; None when it is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def python(version: str, asked: str) -> Finding:
    """Judge the version of Python."""
    if SpecifierSet(asked).contains(version, prereleases=True):
        return Finding("Python", "ok", version)
    return Finding("Python", "wrong", f"{version}, and {asked} is asked for", "make setup PYTHON=python3.11")


def base(asked: Sequence[Requirement], version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    """Judge what every network needs: a line for each package that is not as asked, or one for all."""
    wanted = [each for each in asked if _wanted(each, "")]
    faults = [(each, said) for each in wanted if (said := _fault(each, version_of))]
    for each, said in faults:
        yield Finding(each.name, "wrong", said, f"pip install '{each}'")
    if not faults:
        shown = ", ".join(f"{each.name} {version_of(each.name)}" for each in wanted)
        yield Finding("packages", "ok", shown)


def of_extra(name: str, asked: Sequence[Requirement], version_of: Callable[[str], str | None]) -> Finding:
    """Judge one extra: whether all that it brings is there, in the versions that are asked for."""
    title = f"extra {name}"
    wanted = [each for each in asked if _wanted(each, name) and not _wanted(each, "")]
    faults = [said for each in wanted if (said := _fault(each, version_of))]
    if faults:
        purpose = f"; it is for {FOR[name]}" if name in FOR else ""
        return Finding(title, "missing", ", ".join(faults) + purpose, f"pip install '{PACKAGE}[{name}]'")
    if not wanted:
        return Finding(
            title, "missing", "what is installed is older than the extra", f"pip install '{PACKAGE}[{name}]'"
        )
    return Finding(title, "ok", ", ".join(f"{each.name} {version_of(each.name)}" for each in wanted))


def _wanted(asked: Requirement, extra: str) -> bool:
    return asked.name != PACKAGE and (asked.marker is None or asked.marker.evaluate({"extra": extra}))


def _fault(asked: Requirement, version_of: Callable[[str], str | None]) -> str:
    """Return what is wrong with a package; nothing when it is as asked."""
    version = version_of(asked.name)
    if version is None:
        return f"{asked.name} is not installed"
    if not asked.specifier.contains(version, prereleases=True):
        return f"{asked.name} {version} is installed, and {asked.specifier} is asked for"
    return ""
