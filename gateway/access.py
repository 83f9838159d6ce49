"""Access rights: who may publish and subscribe to what. Rights are selectors, decided by covering. Pure.

Rules
-----
* A principal publishes only events that its publish right matches. One event outside the right rejects the
  whole batch.
* A principal subscribes only to filters that its subscribe right covers. `covers` has no false positives.
  Patterns can cause false negatives; the subscription can then be narrowed to the intersection with the
  right, which never delivers more than the right allows.
* A refusal names the missing right and states the right.

Source: covering is that of paper 3, definition 5. Deciding rights by covering is ours (decision 0057).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.errors import AccessDenied, FilterTooComplex, InputError, SelectorError
from ..protocol.gateways import ANONYMOUS, AccessConfig, GatewayLimits, Principal, digest_of
from ..routing.filters.covering import covers
from ..routing.filters.filter import Filter, normalize_predicate, to_filter, to_predicate
from ..routing.language.predicates import And
from .terms import Terms

__all__ = ["Access", "Rights"]

EVERYTHING: Final = to_filter("")
QUICK_CHARACTERS_MAX: Final = 256
_NOT_QUICK: Final = re.compile(r"[(\[{]|<>|!=|\b(?:or|not|in|between|cesql)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one principal.

    Attributes
    ----------
    name
        The principal's name.
    publish, subscribe
        The events it may publish, and the events it may subscribe to.
    principal
        Its rates and limits.
    """

    name: str
    publish: Filter
    subscribe: Filter
    principal: Principal

    def require_publish(self) -> None:
        """Raise AccessDenied if the publish right matches no event at all."""
        if not self.publish.clauses:
            raise AccessDenied(f"the right to publish of {self.name!r} is {self.publish}", "publish")

    def check_publish(self, batch: EventBatch) -> None:
        """Check that all events of a batch may be published.

        Raises
        ------
        AccessDenied
            If an event may not be published; the message names it.
        """
        if self.publish == EVERYTHING:
            return
        allowed = self.publish.evaluate_batch(batch, every=True)
        if not allowed.all():
            row = int(np.argmin(allowed))
            raise AccessDenied(
                f"event {row}: the right to publish of {self.name!r} does not match it: {self.publish}",
                "publish",
            )

    def admit(self, wanted: Filter, *, narrow: bool = False) -> Filter:
        """Return the permitted filter: `wanted` itself, or with `narrow` its intersection with the subscribe right.

        Raises
        ------
        AccessDenied
            If the right does not cover `wanted`, or with `narrow` if the intersection is empty.
        FilterTooComplex
            If the intersection exceeds the limit on the size of a normal form.
        """
        if covers(self.subscribe, wanted):
            return wanted
        if not narrow:
            raise AccessDenied(
                f"the right to subscribe of {self.name!r} does not cover {wanted}: it is {self.subscribe}; "
                "ask for less, or for the subscription to be narrowed to it",
                "subscribe",
            )
        left = normalize_predicate(And((to_predicate(str(wanted)), to_predicate(str(self.subscribe)))))
        if not left.clauses:
            raise AccessDenied(
                f"the right to subscribe of {self.name!r} leaves nothing of {wanted}: it is {self.subscribe}",
                "subscribe",
            )
        return left

    def check_terms(self, terms: Terms) -> None:
        """Check that a subscription may ask for these terms; AccessDenied if not."""
        mine = self.principal
        if terms.priority > mine.priority_max:
            raise AccessDenied(
                f"the right to subscribe of {self.name!r} has no priority above {mine.priority_max} (priority_max)",
                "subscribe",
            )
        if terms.max_delay is not None and not mine.max_delay:
            raise AccessDenied(
                f"the right to subscribe of {self.name!r} has no promise of a max_delay (max_delay = true gives it)",
                "subscribe",
            )

    def admit_again(self, durable: str, known: Sequence[Filter], allowed: Filter | None) -> Filter:
        """Return the existing subscription of a durable name, if it is still within the right.

        Raises
        ------
        InputError
            If the name has no subscription and none is given, or if the given one differs from the existing one.
        AccessDenied
            If the right no longer covers the existing subscription.
        """
        if not known:
            if allowed is None:
                raise InputError(f"durable {durable!r}: there is no such name yet: give a selector")
            return allowed
        there = known[0]
        if allowed is not None and allowed != there:
            raise InputError(
                f"durable {durable!r}: has subscribed to {there}: leave the selector out, or end it first"
            )
        return self.admit(there)


class Access:
    """The rights of all principals, from the section ``[access]`` of a network file.

    Raises
    ------
    InputError
        If a name, digest, number or selector in the section is invalid.
    """

    def __init__(self, config: AccessConfig) -> None:
        config.validate()
        self._by_name = {name: _rights(name, given) for name, given in config.principals.items()}
        self._by_digest = {
            digest: name for name, given in config.principals.items() for digest in given.token_sha256
        }
        self._anonymous = None if config.anonymous is None else _rights(ANONYMOUS, config.anonymous)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the principals, in the order of the file."""
        return tuple(self._by_name)

    def rights_of(self, token: str | None, login: str | None = None) -> Rights:
        """Return the rights of the principal that a token belongs to.

        Parameters
        ----------
        token
            The presented token; None or empty if none was presented.
        login
            The claimed name, where the protocol has a field for it. The token must belong to that principal.

        Raises
        ------
        AccessDenied
            If the token is unknown, or none was presented and anonymous access is off.
        """
        if not token:
            if self._anonymous is None:
                raise AccessDenied("a token is missing: this network admits nobody without one")
            return self._anonymous
        try:
            name = self._by_digest.get(digest_of(token))
        except UnicodeEncodeError:
            name = None
        if name is None or (login and login != name):
            raise AccessDenied(
                "the token is not known" if not login else "login and token do not go together"
            )
        return self._by_name[name]


def _rights(name: str, given: Principal) -> Rights:
    filters: dict[str, Filter] = {}
    for right in ("publish", "subscribe"):
        try:
            filters[right] = to_filter(getattr(given, right))
        except InputError as error:
            raise InputError(f"access {name}: {right}: {error}") from None
    return Rights(name, filters["publish"], filters["subscribe"], given)


def is_quick(selector: object) -> bool:
    """Return whether a selector is a short row of conditions with AND, which is read in a fraction of a millisecond.

    What has alternatives may be multiplied out, and what has parentheses may be nested deeply.
    """
    return (
        isinstance(selector, str)
        and len(selector) <= QUICK_CHARACTERS_MAX
        and _NOT_QUICK.search(selector) is None
    )


def wanted_filter(selector: str | Mapping[str, object], limits: GatewayLimits) -> Filter:
    """Parse the selector of a client, within the limits on its length and on its normal form.

    Raises
    ------
    SelectorError, FilterTooComplex
        If the selector is invalid, or too large.
    """
    if not isinstance(selector, str):
        raise SelectorError("a selector must be text")
    if len(selector) > limits.selector_characters_max:
        raise FilterTooComplex(
            f"the selector has {len(selector):,} characters, the limit is {limits.selector_characters_max:,} "
            "(selector_characters_max)"
        )
    return to_filter(selector, limits.selector_clauses_max)
