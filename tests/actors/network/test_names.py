"""Names that outlive their process: used by one process at a time, through all its incarnations."""

from typing import Any

import pytest
from rayvous.actors.network.names import LastingNames
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.errors import ClientError
from rayvous.protocol.messages.pubsub import Register
from rayvous.routing.language.questions import to_filter


class Shelf:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        self.values[name] = value

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def names(self, prefix: str) -> list[str]:
        return [name for name in self.values if name.startswith(prefix)]

    def clear(self) -> None:
        self.values.clear()


def test_a_process_may_acknowledge_while_it_goes_to_another_broker() -> None:
    names = LastingNames(Shelf())
    incarnation = names.come("alice", 3, "first")["life"]
    assert names.renew("alice", incarnation, 5) == incarnation + 1
    names.acknowledge("alice", incarnation, {"bob": 7})
    assert names.subscriber("alice")["position"] == {"bob": 7} and names.subscriber("alice")["broker"] == 5


def test_a_process_that_another_one_has_taken_over_from_is_refused_in_all_its_lives() -> None:
    names = LastingNames(Shelf())
    first = names.come("alice", 3, "first")["life"]
    names.renew("alice", first, 5)
    second = names.come("alice", 5, "second")["life"]
    for incarnation in (first, first + 1):
        with pytest.raises(ClientError, match="returned in another process"):
            names.acknowledge("alice", incarnation, {"bob": 9})
        with pytest.raises(ClientError, match="returned in another process"):
            names.renew("alice", incarnation, 6)
    names.acknowledge("alice", second, {"bob": 9})
    assert names.come("alice", 5, "second")["life"] == second, "the same call begins no other life"


def test_of_whom_nothing_is_known_nothing_is_written() -> None:
    """A call after the end of a network, with an empty store, must write nothing that the next one reads."""
    shelf = Shelf()
    names = LastingNames(shelf)
    for call in (
        lambda: names.renew("alice", 1, 5),
        lambda: names.acknowledge("alice", 1, {"bob": 7}),
        lambda: names.subscriptions("alice", 1, {"subscriptions": {}, "since": None}),
        lambda: names.end("alice", 1),
    ):
        with pytest.raises(ClientError, match="there is no durable subscriber 'alice' any more"):
            call()
    assert shelf.values == {}


def test_what_a_subscription_is_outlives_the_process() -> None:
    """This includes its priority, and whether publishers at its own broker satisfy it."""
    names = LastingNames(Shelf())
    machine = SubscriberMachine(durable=True)
    machine.restore(names.come("alice", 1, "ticket"))
    machine.subscribe(1, to_filter("x > 0"), 0.0, 7, local_first=True)
    machine.confirmed(1)
    names.subscriptions("alice", machine.incarnation, machine.record())
    back = SubscriberMachine(durable=True)
    back.restore(names.come("alice", 1, "another"))
    _, said = back.arrive(0.0)
    assert isinstance(said, Register) and said.priority == 7 and said.local_first


def test_whom_no_broker_holds_is_listed_with_when_he_was_seen_if_he_has_subscriptions() -> None:
    shelf = Shelf()
    names = LastingNames(shelf)
    for name in ("alice", "bob", "carol", "dave"):
        life = names.come(name, 3, f"{name}'s")["life"]
        names.subscriptions(name, life, {"subscriptions": {1: to_filter("x > 1")}, "since": 1.0})
    names.end("dave", 1)
    seen = {name: names.subscriber(name)["seen"] for name in ("alice", "bob", "carol")}
    assert names.seen(["alice", "bob"], ["bob"]) == {"bob": seen["bob"], "carol": seen["carol"]}
    assert names.seen([], ["nobody"]) == seen


def test_a_trustee_knows_what_a_broker_that_has_left_had_accepted() -> None:
    names = LastingNames(Shelf())
    for name, homes in (("a", [3]), ("b", [4, 3]), ("c", [3, 5]), ("d", [4])):
        for home in homes:
            names.home(name, home, False)
    names.inherit(3, 5)
    assert [names.publisher(name)[0] for name in "abcd"] == [[5], [4, 5], [5], [4]]
    assert names.come("alice", 3, "ticket")["broker"] == 3
    names.inherit_subscribers(3, 5)
    assert names.subscriber("alice")["broker"] == 5 and names.subscriber("alice")["life"] == 1
