"""Fixtures of this folder: the expected deliveries of a scenario, and checks that a network has healed.

The expected deliveries are computed from the scenario alone.
"""

import random
from collections import defaultdict

import pytest
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.scenarios.scenario import Publish, Settle, Subscribe, Unsubscribe
from rayvous.protocol.scenarios.workload import random_event, random_selector
from rayvous.protocol.stability import Stability
from rayvous.recovery.replay.deduplicator import Deduplicator
from rayvous.routing.language.predicates import evaluate
from rayvous.routing.language.questions import to_predicate
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation


def expected(steps):
    """Return ({client: events it must get}, {client: events it may get}), events as (publisher, sequence).

    An event must be delivered when a subscription that it satisfies existed before it was published and was
    not cancelled before the network settled. It may be delivered when such a subscription existed at any time
    until then.
    """
    must, may = defaultdict(set), defaultdict(set)
    active, sequences, loose = {}, defaultdict(int), []
    for step in steps:
        if isinstance(step, Subscribe):
            active[step.client, step.number] = to_predicate(step.selector)
            _note(may, {(step.client, step.number): active[step.client, step.number]}, loose)
        elif isinstance(step, Unsubscribe):
            gone = active.pop((step.client, step.number))
            for identity, event in loose:
                if evaluate(gone, event) is True and not _wanted(active, step.client, event):
                    must[step.client].discard(identity)
        elif isinstance(step, Publish):
            for event in step.events:
                sequences[step.client] += 1
                loose.append(((step.client, sequences[step.client]), event))
                _note(must, active, loose[-1:])
                _note(may, active, loose[-1:])
        elif isinstance(step, Settle):
            loose = []
    return must, may


def _note(into, subscriptions, events):
    for (client, _), predicate in subscriptions.items():
        for identity, event in events:
            if evaluate(predicate, event) is True:
                into[client].add(identity)


def _wanted(active, client, event):
    return any(
        owner == client and evaluate(predicate, event) is True for (owner, _), predicate in active.items()
    )


@pytest.fixture
def assert_promises():
    """Return the function that compares an outcome with the expected deliveries."""
    return _assert_promises


def _assert_promises(outcome):
    """Assert promises 1 to 3: what must arrive arrived, exactly once and in order, and nothing else did."""
    must, may = expected(outcome.scenario.steps)
    assert must.keys() | may.keys() <= outcome.deliveries.keys()
    for client, got in outcome.deliveries.items():
        assert len(set(got)) == len(got), f"{client} got an event twice"
        assert must[client] <= set(got), f"{client} did not get {sorted(must[client] - set(got))}"
        assert set(got) <= may[client], f"{client} got {sorted(set(got) - may[client])}"
        for publisher in {publisher for publisher, _ in got}:
            mine = [sequence for other, sequence in got if other == publisher]
            assert mine == sorted(mine), f"{client} got the events of {publisher} out of order"


@pytest.fixture
def assert_healed():
    """Return the function that checks a network after faults against promises 1 to 3 and 6."""
    return _assert_healed


def _assert_healed(net):
    """Assert that the network is sound, and nothing lost, duplicated or out of order; return the verdict."""
    assert structure_problems(net) == []
    assert subscription_problems(net) == []
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict
    assert verdict.notifications_expected > 0
    return verdict


@pytest.fixture
def restless_steps():
    """Return the function that draws steps in which clients come and go while events are in transit."""
    return _restless_steps


def _restless_steps(seed, brokers, length):
    rng = random.Random(f"restless/{seed}")
    homes = {f"c{number}": rng.randrange(brokers) for number in range(8)}
    active, steps = [], []
    for number in range(1, length):
        action, client = rng.random(), rng.choice(list(homes))
        if action < 0.25:
            steps.append(Subscribe(client, homes[client], number, random_selector(rng)))
            active.append((client, number))
        elif action < 0.45 and active:
            steps.append(Unsubscribe(*active.pop(rng.randrange(len(active)))))
        elif action < 0.97:
            events = tuple(random_event(rng) for _ in range(rng.choice((1, 1, 4))))
            steps.append(Publish(client, homes[client], events))
        else:
            steps.append(Settle())
    return (*steps, Settle(), *(Unsubscribe(*each) for each in active))


class Scripted(Simulation):
    """A network of brokers with stores and small limits that counts the effects of each broker."""

    def __init__(self, positions, scheme, **options):
        self.effects = {place.broker: 0 for place in positions}
        small = Stability(retransmit_seconds=0.1, inputs_max=3, window_messages=3)
        options = {"store": in_memory, "stability": small, "record": self.count, **options}
        super().__init__(positions, scheme, **options)
        self.effects = dict.fromkeys(self.effects, 0)  # without the first tick of each broker

    def count(self, step):
        self.effects[step.broker.position.broker] += len(step.effects)

    def rest(self):
        """Advance until the network settles, restarting brokers that have died."""
        for _ in range(20):
            if self.settle(1.0):
                return
            for broker in self.dead():
                self.restart(broker)
        raise AssertionError("not at rest")


@pytest.fixture
def scripted():
    """Return the class of networks whose brokers can crash between any two effects of a script."""
    return Scripted


@pytest.fixture
def only_ages(monkeypatch):
    """Return a function after whose call subscriptions begin at no position: only their ages count."""

    def confirm(deduplicator, client, number, marks, now):
        want = deduplicator._wants.get(client, {}).get(number)
        if want is not None:
            want.begins = {}
        return {}

    return lambda: monkeypatch.setattr(Deduplicator, "confirm", confirm)
