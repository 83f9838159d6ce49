"""A network as a TOML file: the arguments of `Network.launch`, for users who keep their configuration in a repository.

Rules
-----
* The keys of the file are the arguments of `Network.launch`; the keys of each section are the fields of its class.
  No other keys are allowed, so misspelled keys are detected.
* A mistake raises one `InputError` with the file, the line and the key.
* A folder that is not absolute is relative to the file, wherever the command is run.

``rayvous init`` writes a file with every key and its purpose.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ...protocol.configs import DEFAULT_SCHEME, Limits
from ...protocol.errors import InputError
from ...protocol.gateways import AccessConfig, GatewayConfig
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.node_places import NodePlace
from ...protocol.telemetry.tables import TelemetryConfig
from ...recovery.durability.stable import Stable
from ...routing.topologies.cluster_trees import Topology, topology_of
from ..channels.config import LINKS_DEFAULT
from .rights import check_rights
from .settings import Settings

BYTES_MAX: Final = 1 << 20
_HEADING: Final = re.compile(r"\[+([^\]]+)\]+")
_MISSING: Final = ("missing", "missing_argument")
_PART: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[^.\s]+")
_SETTING: Final = re.compile(r"([A-Za-z0-9_.\"'-]+)\s*=")

Key = tuple[str, ...]
M = TypeVar("M", bound=BaseModel)


class _Content(BaseModel):
    """The keys of the file; the sections are the classes that `Network.launch` takes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    topology: dict[str, Any]
    scheme: str = DEFAULT_SCHEME
    brokers_per_actor: int = 1
    trace_events: bool = False
    links: str = LINKS_DEFAULT
    ports: str | None = None
    chaos: bool = False
    limits: Limits = Limits()
    recovery: Recovery | None = None
    stable: Stable | None = None
    admission: AdmissionConfig | None = None
    telemetry: TelemetryConfig | None = None
    gateway: GatewayConfig | None = None
    access: AccessConfig | None = None
    place: NodePlace | None = None


class _Outside(BaseModel):
    """The sections of a file about clients outside Ray; the others are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    gateway: GatewayConfig | None = None
    access: AccessConfig | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """The text of a file, to locate mistakes in it."""

    path: Path
    text: str

    def line_of(self, key: Key) -> int | None:
        """Return the line that sets a key; otherwise the last line that sets a prefix of it, such as its section.

        If there is none either, return the first heading of a table within the key, or None.
        """
        table: Key = ()
        depth, found, within = 0, None, None
        for number, line in enumerate(self.text.splitlines(), 1):
            if heading := _HEADING.match(line.strip()):
                here = table = _parts(heading[1])
                if within is None and key and here[: len(key)] == key:
                    within = number
            elif setting := _SETTING.match(line.strip()):
                here = table + _parts(setting[1])
            else:
                continue
            if len(here) > depth and here == key[: len(here)]:
                depth, found = len(here), number
        return within if found is None else found

    def wrong(self, key: Key, what: object) -> InputError:
        """Return the error for one mistake."""
        line = self.line_of(key)
        where = f"{self.path}:{line}" if line is not None else str(self.path)
        return InputError(f"{where}: {'.'.join(key)}: {what}" if key else f"{where}: {what}")


def read_network_file(path: str | Path) -> Settings:
    """Return the validated settings of a network file.

    Raises
    ------
    InputError
        If the file cannot be read, or has a mistake; the message has the file, the line and the key.
    """
    source = _read(Path(path))
    given = _parsed(source)
    content = _validated(source, given, _Content)
    sections = _sections(source, given, content, _SECTIONS)
    topology: Topology = _checked(
        source, ("topology",), content.topology, lambda: topology_of(_rooted(content.topology))
    )
    settings = Settings(
        topology=topology,
        name=content.name,
        scheme=content.scheme,
        brokers_per_actor=content.brokers_per_actor,
        trace_events=content.trace_events,
        links=content.links,  # type: ignore[arg-type]  # checked by `Settings.validate`
        ports=content.ports,
        chaos=content.chaos,
        **_beside(source.path, sections),
    )
    _checked(source, (), given, settings.validate)
    return settings


def read_gateway_file(path: str | Path) -> tuple[GatewayConfig | None, AccessConfig | None]:
    """Return the validated settings of a file for clients outside Ray; the rest of the file is ignored.

    Raises
    ------
    InputError
        If the file cannot be read, or has a mistake; the message has the file, the line and the key.
    """
    source = _read(Path(path))
    given = _parsed(source)
    content = _validated(source, given, _Outside)
    sections = _beside(source.path, _sections(source, given, content, ("gateway", "access")))
    return sections["gateway"], sections["access"]


def from_file(path: str | Path, name: str | None, given: Settings) -> Settings:
    """Return the settings of a file, with the caller's name if one is given, and the caller's `detached` and `nodes`.

    Raises
    ------
    InputError
        If the file has a mistake, or the caller gave a setting that belongs in the file.
    """
    plain = Settings(given.topology, given.name, detached=given.detached, nodes=given.nodes)
    for each in fields(Settings):
        if getattr(given, each.name) != getattr(plain, each.name):
            raise InputError(f"{each.name}: set it in the network file, {path}")
    read = read_network_file(path)
    name = read.name if name is None else name
    return replace(read, name=name, detached=given.detached, nodes=given.nodes)


def _read(path: Path) -> _Source:
    try:
        if path.stat().st_size > BYTES_MAX:
            raise InputError(f"{path}: is larger than {BYTES_MAX:,} bytes, the limit for a network file")
        return _Source(path, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; `rayvous init {path}` writes one") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read: {error}") from None


def _parsed(source: _Source) -> dict[str, Any]:
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+)", str(error))
        raise InputError(f"{source.path}{f':{at[1]}' if at else ''}: {error}") from None


def _sections(
    source: _Source, given: dict[str, Any], content: BaseModel, names: Iterable[str]
) -> dict[str, Any]:
    """Return sections, each validated separately."""
    sections = {name: getattr(content, name) for name in names}
    for name, section in sections.items():
        if section is not None:
            _checked(source, (name,), given.get(name, {}), section.validate)
    if sections.get("access") is not None:
        _checked(source, ("access",), given["access"], partial(check_rights, sections["access"]))
    return sections


def _validated(source: _Source, given: dict[str, Any], kind: type[M]) -> M:
    try:
        # As JSON, in which the keys of a table that are numbers, such as brokers, may be strings, as they are in
        # TOML.
        return kind.model_validate_json(json.dumps(given, default=str))
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
    # A missing key is often present but misspelled, so other mistakes are reported first.
    first = min(mistakes, key=lambda mistake: mistake["type"] in _MISSING)
    key = tuple(str(part) for part in first["loc"])
    what = first["msg"]
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        what = f"there is no such key; {_known(key[:-1])}"
    elif first["type"] in _MISSING:
        what = "is missing"
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    raise source.wrong(key, what + more)


def _known(section: Key) -> str:
    """Return a text that lists the keys of a section."""
    kind: Any = _Content
    for part in section:
        kind = _section_class(kind, part)
        if kind is None:
            return "see `rayvous init`"
    return f"there are {', '.join(_fields(kind))}"


def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(kind.model_fields if kind is _Content else kind.__dataclass_fields__)


_SECTIONS: Final[dict[str, type]] = {
    "limits": Limits,
    "recovery": Recovery,
    "stable": Stable,
    "admission": AdmissionConfig,
    "telemetry": TelemetryConfig,
    "gateway": GatewayConfig,
    "access": AccessConfig,
    "place": NodePlace,
}


def _section_class(kind: Any, part: str) -> type | None:
    return _SECTIONS.get(part) if kind is _Content else None


def _checked(source: _Source, section: Key, given: dict[str, Any], check: Any) -> Any:
    """Return the result of one of our own checks; its InputError is raised with the line of the key that it names."""
    try:
        return check()
    except InputError as error:
        raise source.wrong((*section, *_named(given, str(error))), error) from None


def _named(given: dict[str, Any], said: str) -> Key:
    """Return the keys that a message names: the first one, followed by those in its section.

    Later keys are ignored, because a message may end with a list of all keys that exist.
    """
    found = [
        (m.start(), -len(key), key)
        for key in given
        if (m := re.search(rf"(?<!\w){re.escape(key)}(?!\w)", said))
    ]
    if not found:
        return ()
    at, length, key = min(found)
    within = given[key]
    return (key, *(_named(within, said[at - length :]) if isinstance(within, dict) else ()))


def _rooted(topology: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a topology in which the root has no parent; in TOML its parent is the empty string."""
    parents = topology.get("parents")
    if not isinstance(parents, dict):
        return topology
    return {**topology, "parents": {label: parent or None for label, parent in parents.items()}}


def _beside(path: Path, sections: dict[str, Any]) -> dict[str, Any]:
    """Return the sections, with folders that are not absolute made relative to the file's folder."""
    beside = path.absolute().parent
    stable, telemetry, gateway = (sections.get(name) for name in ("stable", "telemetry", "gateway"))
    if stable is not None:
        sections["stable"] = replace(stable, address=stable.backend().beside(beside))
    if telemetry is not None and telemetry.folder is not None:
        sections["telemetry"] = replace(telemetry, folder=beside / telemetry.folder)
    if gateway is not None and gateway.tls:
        files = {name: beside / getattr(gateway, name) for name in ("certificate", "private_key")}
        sections["gateway"] = replace(gateway, **files)
    return sections


def _parts(dotted: str) -> Key:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
