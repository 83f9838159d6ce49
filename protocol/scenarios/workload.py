"""A random load generated from a seed: subscriptions, cancellations and publications.

Rules
-----
* The same parameters, brokers and seed give the same steps, on every machine.
* The load consists of rounds. In each round some subscriptions are cancelled and replaced, then events are published.
  Between the phases the network settles, so that it is known which events each subscriber must receive.
* Selectors and events describe one small market, so that filters sometimes overlap and cover each other. Every
  value of an event may be missing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from ..errors import ScenarioError
from ..ids import BrokerId

SYMBOLS: Final = ("ACME", "AXLE", "BOLT", "CORE", "CORAL", "DUNE", "ECHO", "FERN")

PlainStep: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a step and its values, from which `scenario` makes a step."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The parameters of a random load.

    Attributes
    ----------
    subscribers
        How many clients subscribe.
    publishers
        How many clients publish.
    publications
        The number of publications in a round; each is by a publisher chosen at random.
    subscriptions_per_subscriber
        Subscriptions that each subscriber has.
    events_per_publication
        Events in one publication.
    rounds
        The number of rounds.
    churn
        Share of the subscriptions that are cancelled and replaced between two rounds, 0 to 1.
    missing
        Probability that an event lacks an attribute, 0 to 1.
    leave
        Whether all subscriptions are cancelled at the end.
    matching
        Share of the events that a subscription matches, 0 to 1; each selector is then one contiguous random range of
        prices. None draws conditions of all kinds, many of which match a large share.
    """

    subscribers: int
    publishers: int
    publications: int
    subscriptions_per_subscriber: int = 1
    events_per_publication: int = 1
    rounds: int = 1
    churn: float = 0.25
    missing: float = 0.1
    leave: bool = False
    matching: float | None = None

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name == "leave":
                good, wanted = isinstance(value, bool), "true or false"
            elif entry.name == "matching" and value is None:
                continue
            elif isinstance(value, bool) or not isinstance(value, int | float):
                good, wanted = False, "a number"
            elif entry.name in ("churn", "missing", "matching"):
                good, wanted = 0 <= value <= 1, "a number from 0 to 1"
            else:
                low = 0 if entry.name in ("subscribers", "publications") else 1
                good, wanted = isinstance(value, int) and value >= low, f"a whole number, {low} or more"
            if not good:
                raise ScenarioError(f"workload: {entry.name} is {value!r}: it must be {wanted}")

    def steps(self, brokers: Sequence[BrokerId], seed: int) -> list[PlainStep]:
        """Return the steps of the load on a network of these brokers."""
        rng = random.Random(f"workload/{seed}")
        subscribers = {f"s{number}": rng.choice(brokers) for number in range(1, self.subscribers + 1)}
        publishers = {f"p{number}": rng.choice(brokers) for number in range(1, self.publishers + 1)}
        active: list[tuple[str, int]] = []
        out: list[PlainStep] = []

        def subscribe(client: str, number: int) -> None:
            values = {"client": client, "broker": subscribers[client], "number": number}
            drawn = random_selector(rng) if self.matching is None else _price_range(rng, self.matching)
            out.append(("subscribe", values | {"selector": drawn}))
            active.append((client, number))

        def unsubscribe(place: int) -> str:
            client, number = active.pop(place)
            out.append(("unsubscribe", {"client": client, "number": number}))
            return client

        for client in subscribers:
            for number in range(1, self.subscriptions_per_subscriber + 1):
                subscribe(client, number)
        for round_number in range(self.rounds):
            if round_number:
                gone = [unsubscribe(rng.randrange(len(active))) for _ in range(self._changes(len(active)))]
                for client in gone:
                    subscribe(client, self.subscriptions_per_subscriber + len(out))
            out.append(("settle", {}))
            names = list(publishers)
            for _ in range(self.publications):
                client = rng.choice(names)
                events = tuple(random_event(rng, self.missing) for _ in range(self.events_per_publication))
                out.append(("publish", {"client": client, "broker": publishers[client], "events": events}))
            out.append(("settle", {}))
        while self.leave and active:
            unsubscribe(rng.randrange(len(active)))
        out.append(("settle", {}))
        return out

    def _changes(self, active: int) -> int:
        return round(active * self.churn)


def random_event(rng: random.Random, missing: float = 0.1) -> dict[str, bool | int | float | str]:
    """Return an event of the market; each attribute is missing with probability `missing`."""
    event: dict[str, bool | int | float | str] = {
        "symbol": rng.choice(SYMBOLS),
        "price": rng.randrange(0, 400) / 4,
        "volume": rng.randrange(0, 1000),
        "urgent": rng.random() < 0.2,
    }
    return {name: value for name, value in event.items() if rng.random() >= missing}


def random_selector(rng: random.Random) -> str:
    """Return a selector over the market: one to three conditions, sometimes two such conjunctions joined by OR."""
    selector = _conjunction(rng)
    return f"{selector} OR {_conjunction(rng)}" if rng.random() < 0.15 else selector


def _price_range(rng: random.Random, share: float) -> str:
    """Return a selector for about that share of the prices, which are whole quarters below 100."""
    width = round(share * 400)
    low = rng.randrange(0, 400 - width + 1)
    return f"price >= {low / 4} AND price < {(low + width) / 4}"


def _conjunction(rng: random.Random) -> str:
    makers = rng.sample((_symbol, _price, _volume, _urgent), rng.choice((1, 1, 2, 2, 3)))
    return " AND ".join(maker(rng) for maker in makers)


def _symbol(rng: random.Random) -> str:
    one, other = rng.sample(SYMBOLS, 2)
    return rng.choice(
        (
            f"symbol = '{one}'",
            f"symbol = '{one}'",
            f"symbol IN ('{one}', '{other}')",
            f"symbol LIKE '{one[0]}%'",
            f"symbol <> '{one}'",
            "symbol IS NULL",
        )
    )


def _price(rng: random.Random) -> str:
    low = rng.randrange(0, 90)
    return rng.choice(
        (
            f"price > {low}",
            f"price <= {low}",
            f"price BETWEEN {low} AND {low + rng.randrange(0, 20)}",
            f"NOT price >= {low}.5",
        )
    )


def _volume(rng: random.Random) -> str:
    low = rng.randrange(0, 1000)
    return rng.choice((f"volume >= {low}", f"volume < {low}", f"volume BETWEEN {low} AND {low + 50}"))


def _urgent(rng: random.Random) -> str:
    return rng.choice(("urgent = TRUE", "urgent = FALSE", "urgent IS NOT NULL"))
