"""Statuses of a network that are made by hand."""

from collections.abc import Callable

import pytest
from rayvous.actors.network.status import BrokerStatus, NetworkStatus


def broker(number: int, *, state="alive", role="NEB", parent=None, events=0, sent=None, books=None):
    """Return the status of a broker, labelled with its number; four brokers form a cluster."""
    sizes = {} if state == "dead" else {"events_in": events, "events_out": events, "notifications": events}
    label, cluster = f"B{number}", number // 4
    return BrokerStatus(number, label, cluster, role, state, parent, (), sizes, sent or {}, books)


@pytest.fixture
def look() -> Callable[..., NetworkStatus]:
    """Return a factory of statuses: ``look(at, broker, ..., problems=())``; a broker is a dict of options."""

    def make(at, *brokers, problems=(), heals=True):
        made = tuple(broker(number, **options) for number, options in enumerate(brokers))
        return NetworkStatus("flights", "hybrid", heals, at, made, tuple(problems), {0: 9, 10: 1})

    return make
