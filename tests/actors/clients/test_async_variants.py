"""Asynchronous variants of calls take the same parameters as the calls."""

from inspect import signature

import pytest
from rayvous.actors.clients.durable import DurableSubscriber
from rayvous.actors.clients.publisher import Publisher
from rayvous.actors.clients.subscriber import Subscriber

VARIANTS = [
    (client, name.removesuffix("_async"))
    for client in (Publisher, Subscriber, DurableSubscriber)
    for name in dir(client)
    if name.endswith("_async") and not name.startswith("_")
]


@pytest.mark.parametrize(("client", "name"), VARIANTS, ids=lambda value: getattr(value, "__name__", value))
def test_an_asynchronous_variant_takes_what_its_call_takes(client, name):
    call, variant = (signature(getattr(client, each)) for each in (name, f"{name}_async"))
    if name == "batches":  # a coroutine can be cancelled, so it needs no timeout
        assert list(variant.parameters) == ["self", "rows_max"]
    else:
        assert list(variant.parameters.values()) == list(call.parameters.values())
