"""Consumer groups: their configuration and their state.

Rule: a group's name is part of the name of its actor and of its durable subscriber, so it has few characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from . import checks
from .errors import InputError
from .ids import ClientId

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~/@-]{0,127}")
PUBLISHER_KEY: Final = "_publisher"
"""The key that is the publisher of an event, named as the column of record batches."""
GROUPS: Final = "group:"
"""What the names of the durable subscribers begin with that are groups, and those of no others."""
ACTOR: Final = "rayvous.actors.groups.actor:GroupActor"
"""The class of the actors that share, named as schemes and backends of users are: what starts them stands below it."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A consumer group, as its workers ask for it.

    Attributes
    ----------
    name
        Its name in its network.
    group_key
        An attribute: events that have equal values of it are processed in order. ``"_publisher"`` is their publisher.
        None for no order between workers.
    ack_seconds
        An event that its worker neither acknowledges nor refuses for so long, since it was given or since one given to
        that worker before was, is given again.
    deliveries_max
        How often an event is delivered before it is a dead letter.
    unacknowledged_max
        How many events a worker may hold.
    silent_seconds
        A worker whose process was not heard for so long is dead.
    """

    name: str
    group_key: str | None = None
    ack_seconds: float = 60.0
    deliveries_max: int = 5
    unacknowledged_max: int = 100
    silent_seconds: float = 10.0

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any]) -> GroupConfig:
        """Return the configuration of these settings; InputError if there is no such setting, or one is invalid."""
        known = [each.name for each in fields(cls) if each.name != "name"]
        for setting in given:
            if setting not in known:
                raise InputError(f"{setting}: a group has no such setting; it has {', '.join(known)}")
        return cls(name, **given).validate()

    def validate(self) -> GroupConfig:
        """Validate the configuration and return it; InputError, with the name of a field, if one is invalid."""
        if not NAME.fullmatch(checks.text("name", self.name)):
            raise checks.wrong("name", self.name, "at most 128 letters, digits and characters of _.~/@-")
        if self.group_key is not None:
            checks.text("group_key", self.group_key)
        for name in ("ack_seconds", "silent_seconds"):
            checks.number(name, checks.seconds(name, getattr(self, name)), above=True)
        for name in ("deliveries_max", "unacknowledged_max"):
            checks.whole_number(name, getattr(self, name), 1)
        return self

    def beside(self, other: GroupConfig) -> str:
        """Return the fields that another configuration has otherwise, with what is here and there."""
        pairs = ((each.name, getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return ", ".join(
            f"{name}={here!r} instead of {there!r}" for name, here, there in pairs if here != there
        )


def subscriber_of(group: str) -> ClientId:
    """Return the name of the durable subscriber that a group is."""
    return f"{GROUPS}{group}"
