"""The installed packages compared with the requirements of `pyproject.toml`: the base, and each extra."""

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
"""The purpose of an extra, if its name does not say it."""


def look() -> Iterator[Finding]:
    """Check this Python and its installed packages."""
    about = metadata.metadata(PACKAGE)
    yield python(platform.python_version(), about["Requires-Python"] or "")
    asked = asked_by(PACKAGE)
    beside = list(their_extras(asked, asked_by))
    yield from base(asked, beside, installed)
    for name in EXTRAS:
        yield of_extra(name, asked, beside, installed)


def asked_by(name: str) -> list[Requirement]:
    """Return the requirements of a package; empty if it is not installed."""
    try:
        return [Requirement(line) for line in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []


def their_extras(
    asked: Sequence[Requirement], of: Callable[[str], Sequence[Requirement]]
) -> Iterator[Requirement]:
    """Yield, for ``ray[default]``, the requirements of Ray's extra ``default``; they serve the same purpose here.

    pip does not check an extra again if the package itself is installed: so ``ray`` alone would satisfy it.
    """
    for each in asked:
        for one in of(each.name) if each.name != PACKAGE else ():
            if not _wanted(one, "") and any(_wanted(one, extra) for extra in each.extras):
                one.marker = each.marker
                yield one


def installed(name: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def python(version: str, asked: str) -> Finding:
    """Judge the version of Python."""
    if SpecifierSet(asked).contains(version, prereleases=True):
        return Finding("Python", "ok", version)
    return Finding("Python", "wrong", f"{version}, and {asked} is asked for", "make setup PYTHON=python3.11")


def base(
    asked: Sequence[Requirement], beside: Sequence[Requirement], version_of: Callable[[str], str | None]
) -> Iterator[Finding]:
    """Judge the base requirements: a line for each package that does not meet them, or one for all."""
    faults = list(_faults(asked, beside, "", version_of))
    for each, said in faults:
        yield Finding(each.name, "wrong", said, f"pip install '{each.name}{_extras(each)}{each.specifier}'")
    if not faults:
        yield Finding("packages", "ok", _shown(asked, "", version_of))


def of_extra(
    name: str,
    asked: Sequence[Requirement],
    beside: Sequence[Requirement],
    version_of: Callable[[str], str | None],
) -> Finding:
    """Judge one extra: whether all its packages are installed, in the required versions."""
    title, todo = f"extra {name}", f"pip install '{PACKAGE}[{name}]'"
    said = ", ".join(fault for _, fault in _faults(asked, beside, name, version_of))
    if said:
        purpose = f"; it is for {FOR[name]}" if name in FOR else ""
        return Finding(title, "missing", said + purpose, todo)
    shown = _shown(asked, name, version_of)
    if not shown:
        return Finding(title, "missing", "what is installed is older than the extra", todo)
    return Finding(title, "ok", shown)


def _shown(asked: Sequence[Requirement], extra: str, version_of: Callable[[str], str | None]) -> str:
    return ", ".join(f"{each.name} {version_of(each.name)}" for each in asked if _brought(each, extra))


def _faults(
    asked: Sequence[Requirement],
    beside: Sequence[Requirement],
    extra: str,
    version_of: Callable[[str], str | None],
) -> Iterator[tuple[Requirement, str]]:
    """Yield the packages that do not meet the requirements, and what is wrong with each."""
    for each in (*asked, *beside):
        if _brought(each, extra) and (said := _fault(each, version_of)):
            yield each, said


def _brought(asked: Requirement, extra: str) -> bool:
    """Return whether a package is required by an extra and not by the base; for an empty extra, by the base."""
    return _wanted(asked, extra) and (not extra or not _wanted(asked, ""))


def _extras(asked: Requirement) -> str:
    return f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""


def _wanted(asked: Requirement, extra: str) -> bool:
    return asked.name != PACKAGE and (asked.marker is None or asked.marker.evaluate({"extra": extra}))


def _fault(asked: Requirement, version_of: Callable[[str], str | None]) -> str:
    """Return what is wrong with a package; empty if it meets the requirement."""
    version = version_of(asked.name)
    if version is None:
        return f"{asked.name} is not installed"
    if not asked.specifier.contains(version, prereleases=True):
        return f"{asked.name} {version} is installed, and {asked.specifier} is asked for"
    return ""
