"""Where actors of a network run: what a node of the Ray cluster must have, and what an actor takes of it.

Rule: labels and resources are written as Ray writes them, so a mistake in one is found before anything is started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from . import checks
from .errors import InputError

_WORD: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
LABEL: Final = re.compile(rf"(?:[A-Za-z0-9][A-Za-z0-9.-]{{0,252}}/)?{_WORD}")
"""The name of a label, as Ray and Kubernetes have it."""
WANTED: Final = re.compile(rf"(?P<no>!)?(?:(?P<one>{_WORD})|in\((?P<some>{_WORD}(?:, ?{_WORD})*)\))")
"""What a label must be: a value, or one of some; or another one than these."""
AMOUNT_MIN: Final = 0.0001
"""The smallest amount of a resource that Ray knows."""
_OWN: Final = {"CPU": "num_cpus", "GPU": "labels", "memory": "labels", "object_store_memory": "labels"}
"""Resources that are no custom ones, and what is written instead."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where actors run: on nodes of the Ray cluster that have these labels, and so much that is free.

    Attributes
    ----------
    labels
        The label that a node must have, by its name, in Ray's words: ``"brokers"``, ``"!gpu"`` (another one, or none),
        ``"in(a, b)"`` or ``"!in(a, b)"``.
    resources
        Custom resources of a node that each actor takes, by their names: at least 0.0001, and whole above 1.
    num_cpus
        The CPUs that each actor takes.
    """

    labels: dict[str, str] = field(default_factory=dict)
    resources: dict[str, float] = field(default_factory=dict)
    num_cpus: float = 0.0

    @property
    def takes(self) -> dict[str, float]:
        """What each actor takes of its node, by Ray's names of resources."""
        return dict(self.resources) | ({"CPU": self.num_cpus} if self.num_cpus else {})

    def validate(self, name: str = "place") -> NodePlace:
        """Validate the place and return it; InputError, with the name of what is wrong, if a part of it is."""
        checks.instance(f"{name} labels", self.labels, Mapping, "a mapping from label to value")
        checks.instance(f"{name} resources", self.resources, Mapping, "a mapping from resource to amount")
        for label, wanted in self.labels.items():
            if not LABEL.fullmatch(checks.text(f"{name} labels", label)):
                raise checks.wrong(
                    f"{name} labels", label, "letters, digits and _.-, and perhaps a prefix and a slash"
                )
            if not isinstance(wanted, str) or not WANTED.fullmatch(wanted):
                raise checks.wrong(
                    f"{name} labels {label}", wanted, 'a value, "!value", "in(a, b)" or "!in(a, b)"'
                )
        for resource, amount in self.resources.items():
            if checks.text(f"{name} resources", resource) in _OWN:
                raise InputError(f"{name} resources: {resource} is no custom resource; use {_OWN[resource]}")
            _amount(f"{name} resources {resource}", amount)
        if self.num_cpus != 0:
            _amount(f"{name} num_cpus", self.num_cpus)
        return self

    def __str__(self) -> str:
        """Return it for people: ``labels pool=brokers; broker 1``."""
        labels = ["labels " + ", ".join(f"{name}={wanted}" for name, wanted in self.labels.items())]
        takes = [f"{name} {amount:g}" for name, amount in self.takes.items()]
        return "; ".join(labels * bool(self.labels) + takes)


def _amount(name: str, value: object) -> None:
    given = checks.number(name, value, AMOUNT_MIN)
    if given > 1 and given != int(given):
        raise checks.wrong(name, value, "whole if it is above 1")
