"""Any argument to a method of a live network or client gives a result or a named error, and soon."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import rayvous as rv
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.actors.network.inspection import Inspection
from rayvous.protocol.errors import RayvousError
from rayvous.protocol.messages.recovery import Recovery

wrong = st.sampled_from(
    (
        -1, 10**30, -0.5, float("nan"), float("inf"), 1e300, "", "2", "nobody", "\ud800", b"bytes", None, (), [], {},
        {"a": object()}, [[]], ["a", 3], object(), int, len, np.float64("nan"), np.int8(-3), rv.Limits(), 1j, "a >",
        rv.attr("a"),
    )
)  # fmt: skip

NOT_CALLED = {
    "close": "it ends what the other examples need", "close_async": "as close", "start_closing": "as close",
    "shutdown": "as close",
    "end": "as close", "abandon": "as close",
    "move": "on the background loop only", "go_from": "as move", "go_to": "as move", "lose": "as move",
    "launch": "in the fast tests", "inject": "what the function raises is the caller's own",
}  # fmt: skip


def methods(kind: type) -> list[str]:
    found = inspect.getmembers(kind, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
    return [name for name, _ in found if not name.startswith("_") and name not in NOT_CALLED]


@pytest.fixture(scope="module")
def parts(ray_started: None) -> Iterator[dict[str, Any]]:
    """Return a small network that heals and its clients, by the names of their types."""
    options: dict[str, Any] = {"recovery": Recovery.for_tests(), "limits": rv.Limits(call_seconds=5.0)}
    with rv.Network.launch(rv.ClusterTree(2, 1), brokers_per_actor=2, **options) as net:
        net.await_convergence(60)
        yield {
            "Network": net,
            "Inspection": net.inspect,
            "Publisher": net.publisher("somebody"),
            "Subscriber": net.subscriber("listener"),
            "DurableSubscriber": net.subscriber("keeper", durable=True),
        }
        net.await_convergence(60)
        assert len(net.inspect.survey()) == 2  # no call has removed or added a broker
        net.inspect.check()


CASES = [
    (kind.__name__, name)
    for kind in (rv.Network, Inspection, rv.Publisher, rv.Subscriber)
    for name in methods(kind)
] + [("DurableSubscriber", "acknowledge")]  # fmt: skip


@pytest.mark.parametrize(("part", "name"), CASES, ids=[".".join(case) for case in CASES])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_wrong_arguments_give_a_named_error(
    parts: dict[str, Any], part: str, name: str, data: st.DataObject
) -> None:
    method = getattr(parts[part], name)
    chosen = {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.default is inspect.Parameter.empty or data.draw(st.booleans()):
            chosen[parameter.name] = data.draw(wrong, label=parameter.name)
    try:
        answer = method(**chosen)
        if inspect.iscoroutine(answer):
            asyncio.run(answer)
    except RayvousError as error:
        assert str(error).strip()


@pytest.mark.parametrize("fault", [None, "look", 3])
def test_only_a_function_is_injected(parts: dict[str, Any], fault: Any) -> None:
    with pytest.raises(rv.InputError, match="fault"):
        parts["Network"].inject(fault)


@pytest.mark.parametrize("wait", ["2", -1, float("nan"), 1e300, [2]])
def test_a_wrong_timeout_is_named_at_once(parts: dict[str, Any], wait: Any) -> None:
    net, subscriber, publisher = parts["Network"], parts["Subscriber"], parts["Publisher"]
    calls = [
        lambda: net.settle(wait),
        lambda: net.await_convergence(wait),
        lambda: net.remove_broker(0, wait),
        lambda: subscriber.notifications(wait),
        lambda: subscriber.batches(timeout_seconds=wait),
        lambda: subscriber.arrivals(timeout_seconds=wait),
        lambda: subscriber.subscribe("a = 1", timeout_seconds=wait),
        lambda: publisher.flush(timeout_seconds=wait),
    ]
    for call in calls:
        with pytest.raises(
            rv.InputError, match=r"timeout_seconds is .*: it must be a number of seconds from 0"
        ):
            call()


def test_what_is_used_after_its_end_says_that_it_is_closed(ray_started: None) -> None:
    with rv.Network.launch(rv.ClusterTree(1, 1), name="ended") as net:
        subscriber, publisher = net.subscriber("alice"), net.publisher("faa")
        gone = net.subscriber("gone")
        gone.close()
        with pytest.raises(rv.ClientError, match="subscriber 'gone' is closed"):
            gone.subscribe("a = 1")
        subscriber.subscribe("a = 1")
        publisher.publish({"a": 1})
        net.settle()
    for call in (
        net.settle,
        net.inspect.describe,
        net.telemetry,
        lambda: net.publisher("b"),
        lambda: net.kill_broker(0),
    ):
        with pytest.raises(rv.ClientError, match="network 'ended' is closed in this process"):
            call()
    for call in (lambda: publisher.publish({"a": 1}), lambda: subscriber.subscribe("a = 2")):
        with pytest.raises(rv.ClientError, match="is closed"):
            call()
    assert len(list(subscriber.notifications())) <= 1  # what it already has, without waiting for more
    assert "closed" in net._repr_html_()
    net.close()
