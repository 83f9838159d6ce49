"""Who may publish and subscribe to what: rights are selectors, and decided by the covering relation. Pure.

Rules
-----
* A principal publishes only events that its right to publish matches: one that does not refuses the whole batch.
* It subscribes only to what its right to subscribe covers. `covers` never says yes when it is not so; where patterns
  make it say no too often, the subscription can be narrowed to the intersection, which never brings more than the
  right allows.
* A refusal says which right is missing, and what the right is.

Source: covering is that of paper 3, definition 5; to decide rights by it is ours (decision 0057).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.errors import AccessDenied, FilterTooComplex, InputError, SelectorError
from ..protocol.gateways import ANONYMOUS, AccessConfig, GatewayLimits, Principal, digest_of
from ..routing.filters.covering import covers
from ..routing.filters.filter import Filter, normalize_predicate, to_filter, to_predicate
from ..routing.language.predicates import And

__all__ = ["Access", "Rights"]


@dataclass(frozen=True, slots=True)
class Rights:
    """What one principal may do.

    Attributes
    ----------
    name
        Who it is.
    publish, subscribe
        What it may publish, and what it may subscribe to.
    principal
        How much: rates and numbers.
    """

    name: str
    publish: Filter
    subscribe: Filter
    principal: Principal

    def require_publish(self) -> None:
        """Return if there are events that may be published; AccessDenied if not."""
        if not self.publish.clauses:
            raise AccessDenied(f"the right to publish of {self.name!r} is {self.publish}", "publish")

    def check_publish(self, batch: EventBatch) -> None:
        """Return if all events of a batch may be published.

        Raises
        ------
        AccessDenied
            If one may not; the message says which.
        """
        allowed = self.publish.evaluate_batch(batch, every=True)
        if not allowed.all():
            row = int(np.argmin(allowed))
            raise AccessDenied(
                f"event {row}: the right to publish of {self.name!r} does not match it: {self.publish}",
                "publish",
            )

    def admit(self, wanted: Filter, *, narrow: bool = False) -> Filter:
        """Return what may be subscribed to of what is wanted: all of it, or with `narrow` what the right leaves of it.

        Raises
        ------
        AccessDenied
            If the right does not cover it, or with `narrow` leaves nothing of it.
        FilterTooComplex
            If what is left is too large to be written down.
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

    def admit_again(self, durable: str, known: Sequence[Filter], allowed: Filter | None) -> Filter:
        """Return the subscription of a durable name: the one that it has, if that is still within the right.

        Raises
        ------
        InputError
            If it has none and none is given, or another one than is given.
        AccessDenied
            If the right does not cover it any more.
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
    """Everybody's rights, from the section ``[access]`` of a network file.

    Raises
    ------
    InputError
        If a name, a digest, a number or a selector of it is wrong.
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
        """Who is named, in the order of the file."""
        return tuple(self._by_name)

    def rights_of(self, token: str | None, login: str | None = None) -> Rights:
        """Return the rights of who shows a token.

        Parameters
        ----------
        token
            What was shown; None or empty for nothing.
        login
            Who it says that it is, where the protocol has a place for that; the token has to be one of its.

        Raises
        ------
        AccessDenied
            If the token is nobody's, or none was shown and nobody may come without.
        """
        if not token:
            if self._anonymous is None:
                raise AccessDenied("a token is missing: this network lets nobody in without one")
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


def wanted_filter(selector: str | Mapping[str, object], limits: GatewayLimits) -> Filter:
    """Return the filter that a client wants, within the limits on its length and on its normal form.

    Raises
    ------
    SelectorError, FilterTooComplex
        If it is none, or too large.
    """
    if not isinstance(selector, str):
        raise SelectorError("a selector is text")
    if len(selector) > limits.selector_characters_max:
        raise FilterTooComplex(
            f"the selector has {len(selector):,} characters, the limit is {limits.selector_characters_max:,} "
            "(selector_characters_max)"
        )
    return to_filter(selector, limits.selector_clauses_max)
