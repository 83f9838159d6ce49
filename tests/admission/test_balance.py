"""The books balance: after any steps they equal a recount of what exists, and are never negative."""

import random
from collections import deque
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.controller import Admission
from rayvous.protocol.effects import Inform, Send
from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Advertise,
    Capacity,
    Judgement,
    Unadvertise,
    WouldAdmit,
)
from rayvous.protocol.messages.pubsub import Cancel, Detach, Register
from rayvous.routing.filters.covering import intersects
from rayvous.routing.filters.filter import Filter, to_filter

TEXTS = [f"x BETWEEN {low} AND {low + wide}" for low in range(0, 8, 2) for wide in range(0, 4, 2)]
FILTERS = [
    *map(to_filter, TEXTS),
    to_filter("TRUE"),
    to_filter("x > 3 AND y = 1"),
    to_filter("x = 1 OR x = 5"),
]
CLIENTS = ("a", "b", "c", "d")
CAPACITY = Capacity(30, 20)


class Tree:
    """Admission machines in a tree, joined by links that are first in, first out."""

    def __init__(
        self, size: int, share: float | None, seed: int, estimator: Any = "paper", share_of: Any = "all"
    ) -> None:
        self.rng = random.Random(seed)
        self.config = AdmissionConfig(share, estimator, CAPACITY, share_of=share_of)
        self.links: dict[int, set[int]] = {broker: set() for broker in range(size)}
        for broker in range(1, size):
            parent = self.rng.randrange(broker)
            self.links[broker].add(parent)
            self.links[parent].add(broker)
        self.machines = {
            broker: Admission(broker, self.config, sorted(of)) for broker, of in self.links.items()
        }
        self.queues: dict[tuple[int, int], deque[Any]] = {}
        self.admitted: dict[tuple[str, int], tuple[int, Filter]] = {}
        self.adverts: dict[tuple[str, int], tuple[int, Filter, int]] = {}
        self.home: dict[str, int] = {}
        self.judged: dict[tuple[str, int], Judgement] = {}

    def do(self, broker: int, out: list[Any]) -> None:
        for each in out:
            if isinstance(each, Send):
                if each.to in self.links[broker]:  # otherwise it is dead, and the sender does not know yet
                    self.queues.setdefault((broker, each.to), deque()).append(each.message)
            elif isinstance(each, Inward) and isinstance(each.event.message, Register):
                client, message = each.event.source, each.event.message
                self.admitted[client, message.subscription] = broker, message.filter
            elif isinstance(each, Inform) and isinstance(each.news, Judgement):
                self.judged[each.client, each.news.number] = each.news

    def tell(self, broker: int, source: Any, message: Any) -> None:
        self.do(broker, self.machines[broker].handle(source, message))

    def deliver(self, messages: int = 10**6) -> None:
        while messages and (ready := sorted(link for link, queue in self.queues.items() if queue)):
            source, to = self.rng.choice(ready)
            self.tell(to, source, self.queues[source, to].popleft())
            messages -= 1

    def relink(self, brokers: list[int]) -> None:
        for link in list(self.queues):
            if link[0] not in self.links or link[1] not in self.links[link[0]]:
                del self.queues[link]
        self.rng.shuffle(brokers)
        for broker in brokers:
            self.do(broker, self.machines[broker].relink(sorted(self.links[broker])))
            self.deliver(self.rng.randrange(4))

    def side(self, broker: int, without: int) -> set[int]:
        """Return the brokers that `broker` still reaches when the link to one neighbour is cut."""
        seen, todo = {broker}, [broker]
        while todo:
            for other in self.links[todo.pop()] - seen - {without}:
                seen.add(other)
                todo.append(other)
        return seen

    def check(self) -> None:
        """Compare every book with the advertisements and subscriptions that exist."""
        for broker, machine in self.machines.items():
            machine.check()
            there = {key: (advert.filter, advert.rate) for key, advert in machine.books.adverts.items()}
            assert there == {key: (item, rate) for key, (_, item, rate) in self.adverts.items()}
            mine = {item for at, item in self.admitted.values() if at == broker}
            assert set(machine.books.held[LOCAL]) == mine
            for link in self.links[broker]:
                near, far = self.side(broker, link), self.side(link, broker)
                assert {key for key, advert in machine.books.adverts.items() if advert.link == link} == {
                    key for key, (at, _, _) in self.adverts.items() if at in far
                }
                published = [item for at, item, _ in self.adverts.values() if at in near]
                wanted = {item for at, item in self.admitted.values() if at in far}
                met = {item for item in wanted if any(intersects(item, each) for each in published)}
                expected = wanted if machine.questions.asks_all else met
                assert set(machine.books.held[link]) == expected, (broker, link)


class Balance(RuleBasedStateMachine):
    """Advertise, subscribe, cancel, unadvertise, fail and rejoin in any order, with messages in transit."""

    @initialize(size=st.integers(1, 6), share=st.sampled_from((0.0, 0.3, None)), seed=st.integers(0, 999))
    def start(self, size: int, share: float | None, seed: int) -> None:
        self.tree = Tree(size, share, seed, ("paper", "tight")[seed % 2], ("all", "way")[seed // 2 % 2])
        self.next_number = 1

    def broker(self, client: str) -> int:
        home = self.tree.home
        if home.get(client) not in self.tree.machines:
            home[client] = self.tree.rng.choice(sorted(self.tree.machines))
        return home[client]

    @rule(client=st.sampled_from(CLIENTS), item=st.sampled_from(FILTERS), rate=st.integers(1, 12))
    def advertise(self, client: str, item: Filter, rate: int) -> None:
        broker = self.broker(client)
        self.tree.adverts[client, self.next_number] = broker, item, rate * MICRO
        self.tree.tell(broker, client, Advertise(self.next_number, item, rate * MICRO))
        self.next_number += 1

    @rule(
        client=st.sampled_from(CLIENTS),
        item=st.sampled_from(FILTERS),
        priority=st.integers(0, 2),
        dry=st.booleans(),
    )
    def subscribe(self, client: str, item: Filter, priority: int, dry: bool) -> None:
        kind = WouldAdmit if dry else Register
        self.tree.tell(self.broker(client), client, kind(self.next_number, item, priority))
        self.next_number += 1

    @precondition(lambda self: self.tree.adverts)
    @rule(place=st.integers(0, 99))
    def unadvertise(self, place: int) -> None:
        key = list(self.tree.adverts)[place % len(self.tree.adverts)]
        broker, _, _ = self.tree.adverts.pop(key)
        self.tree.tell(broker, key[0], Unadvertise(key[1]))

    @precondition(lambda self: self.next_number > 1)
    @rule(client=st.sampled_from(CLIENTS), place=st.integers(0, 99))
    def unsubscribe(self, client: str, place: int) -> None:
        number = place % self.next_number
        self.tree.admitted.pop((client, number), None)
        self.tree.tell(self.broker(client), client, Cancel(number))

    @rule(client=st.sampled_from(CLIENTS))
    def detach(self, client: str) -> None:
        self.forget(client)
        self.tree.tell(self.broker(client), client, Detach())

    def forget(self, client: str) -> None:
        for known in (self.tree.admitted, self.tree.adverts):
            for key in [key for key in known if key[0] == client]:
                del known[key]  # type: ignore[attr-defined]

    @precondition(lambda self: len(self.tree.machines) > 1)
    @rule(place=st.integers(0, 99))
    def fail(self, place: int) -> None:
        """Crash a broker; its neighbours join the first of them."""
        tree = self.tree
        dead = sorted(tree.machines)[place % len(tree.machines)]
        orphans = sorted(tree.links.pop(dead))
        del tree.machines[dead]
        for client in [client for client, at in tree.home.items() if at == dead]:
            self.forget(client)
            del tree.home[client]
        for orphan in orphans:
            tree.links[orphan].discard(dead)
        for orphan in orphans[1:]:
            tree.links[orphan].add(orphans[0])
            tree.links[orphans[0]].add(orphan)
        tree.relink(orphans)

    @rule(place=st.integers(0, 99))
    def rejoin(self, place: int) -> None:
        """Let a broker join, or rejoin, without state, below one of the others."""
        tree = self.tree
        new = min(set(range(len(tree.machines) + 1)) - set(tree.machines))
        parent = sorted(tree.machines)[place % len(tree.machines)]
        tree.links[new] = {parent}
        tree.links[parent].add(new)
        tree.machines[new] = Admission(new, tree.config, [])
        tree.relink([new, parent])

    @precondition(lambda self: len(self.tree.machines) > 2)
    @rule(place=st.integers(0, 99))
    def move(self, place: int) -> None:
        """Let a subtree leave its parent and join elsewhere."""
        tree = self.tree
        broker = sorted(tree.machines)[place % len(tree.machines)]
        old = tree.rng.choice(sorted(tree.links[broker]))
        new = tree.rng.choice(sorted(tree.side(old, broker)))
        tree.links[broker].discard(old)
        tree.links[old].discard(broker)
        tree.links[broker].add(new)
        tree.links[new].add(broker)
        tree.relink(list(dict.fromkeys([broker, old, new])))

    @rule(messages=st.integers(1, 10))
    def let_some_arrive(self, messages: int) -> None:
        self.tree.deliver(messages)

    @rule()
    def come_to_rest(self) -> None:
        self.tree.deliver()
        self.tree.check()
        if self.tree.config.refusing_share_max is None:
            assert all(judged.admitted for judged in self.tree.judged.values())

    @invariant()
    def books_balance(self) -> None:
        for machine in self.tree.machines.values() if hasattr(self, "tree") else ():
            machine.check()

    def teardown(self) -> None:
        if hasattr(self, "tree"):
            self.come_to_rest()


Balance.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, phases=(Phase.generate,)
)
TestBalance = Balance.TestCase
