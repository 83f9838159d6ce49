"""Admission throughput: subscriptions that one broker judges per second, and the quality of the estimators.

One broker with a neighbour knows thousands of advertisements, rectangles over 3 of 10 attributes.
Subscriptions of the same kind arrive and are judged, reserved, requested and cancelled. The cost is compared
with the paper's O(N): the time of one subscription at N advertisements, over that at the smallest N, beside N
over the smallest N.

The two estimators are compared on the same subscriptions: the width of the interval (max - min) over the true
demand's upper bound, and the share refused by a broker that can carry a fixed part of the total.
"""

from __future__ import annotations

import random
import time
from typing import Any

from ..admission.advertisements import LOCAL
from ..admission.books import Books
from ..admission.controller import Admission
from ..admission.demand import demand
from ..protocol.effects import Send
from ..protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Advertised,
    AskAnswer,
    Capacity,
    Estimator,
    Release,
)
from ..protocol.messages.pubsub import Cancel, Register
from ..routing.filters.filter import Filter
from ..routing.language.questions import to_filter

ATTRIBUTES = "abcdefghij"


def run(
    *, advertisements: tuple[int, ...] = (1_000, 10_000), subscriptions: int = 500, seed: int = 0
) -> dict[str, Any]:
    """Run the benchmark, and return the figures as plain data.

    Parameters
    ----------
    advertisements
        Numbers of advertisements that the broker knows, smallest first; a row of figures for each.
    subscriptions
        The number of timed subscriptions.
    seed
        The seed of all filters.
    """
    rows = [_measure(count, subscriptions, seed) for count in advertisements]
    first = rows[0]
    for row in rows:
        row["cost_growth"] = round(
            first["subscriptions_per_cpu_second"] / row["subscriptions_per_cpu_second"], 2
        )
        row["advertisement_growth"] = round(row["advertisements"] / first["advertisements"], 2)
    return {
        "benchmark": "admission",
        "subscriptions_per_second": rows[-1]["subscriptions_per_second"],
        "subscriptions_per_cpu_second": rows[-1]["subscriptions_per_cpu_second"],
        "no_faster_than_n": all(row["cost_growth"] <= max(1.5, row["advertisement_growth"]) for row in rows),
        "results": rows,
        "estimators": [_estimates(estimator, seed) for estimator in ("paper", "tight")],
    }


def _filter(rng: random.Random, attributes: str = ATTRIBUTES, constraints: int = 3) -> Filter:
    parts = []
    for name in rng.sample(attributes, constraints):
        low = rng.randrange(1000)
        parts.append(f"{name} BETWEEN {low} AND {low + rng.randrange(20, 300)}")
    return to_filter(" AND ".join(parts))


def _measure(count: int, subscriptions: int, seed: int) -> dict[str, Any]:
    rng = random.Random(f"admission/{count}/{seed}")
    machine = Admission(0, AdmissionConfig(0.0, capacity=Capacity(1e9, 1e9)), [1])
    adverts = [Advertised(f"p{place}", 1, _filter(rng), 10 * MICRO, 0, (1,)) for place in range(count)]
    started = time.perf_counter()
    for advert in adverts:
        machine.handle(1, advert)
    advertised = time.perf_counter() - started
    wanted = [_filter(rng) for _ in range(subscriptions)]
    started, busy = time.perf_counter(), time.process_time()
    for number, item in enumerate(wanted):
        for effect in machine.handle("s", Register(number, item)):
            if isinstance(effect, Send):
                machine.handle(1, AskAnswer(effect.message.token, 1, ()))  # type: ignore[union-attr]
    subscribed, cpu_seconds = time.perf_counter() - started, time.process_time() - busy
    started = time.perf_counter()
    released = sum(
        isinstance(getattr(effect, "message", None), Release)
        for number in range(subscriptions)
        for effect in machine.handle("s", Cancel(number))
    )
    cancelled = time.perf_counter() - started
    assert released <= subscriptions and not machine.books.held[LOCAL]
    return {
        "advertisements": count,
        "subscriptions": subscriptions,
        "subscriptions_per_second": round(subscriptions / subscribed),
        "subscriptions_per_cpu_second": round(subscriptions / cpu_seconds),  # as on an otherwise idle machine
        "subscription_ms": round(subscribed / subscriptions * 1000, 3),
        "unsubscription_ms": round(cancelled / subscriptions * 1000, 3),
        "advertisement_ms": round(advertised / count * 1000, 3),
    }


def _estimates(
    estimator: Estimator, seed: int, adverts: int = 300, subscriptions: int = 100
) -> dict[str, Any]:
    rng = random.Random(f"estimates/{seed}")
    total = adverts * 10
    books = Books(0, Capacity(total * 0.9, total * 0.9), estimator)
    books.join(1)
    books.join(2)
    for place in range(adverts):
        item = _filter(rng, "ab", rng.choice((1, 1, 2)))  # some filters cover others
        books.advertise((f"p{place}", 1), item, 10 * MICRO, 1)
    refused, width = 0, 0.0
    for _ in range(subscriptions):
        item = _filter(rng, "ab", 2)
        bounds = demand(books.dag, item, estimator)
        width += (bounds.rate_max - bounds.rate_min) / MICRO
        if books.refusals(item, 2):
            refused += 1
        else:
            books.hold(item, 2, 0)
    return {
        "estimator": estimator,
        "mean_interval_events_per_second": round(width / subscriptions, 2),
        "refused": refused,
        "of": subscriptions,
    }
