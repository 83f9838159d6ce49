"""A broker that crashes between any two effects recovers; nothing is lost, duplicated or out of order.

Reference: promises 1, 2, 3 and 7; paper 4, section 3, algorithms 1 to 4, and theorem 1.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from draws import KINDS, of_each_kind, seeds, slow, thorough
from rayvous.broker import Pipeline
from rayvous.faults.checker.reliability import judge
from rayvous.faults.checker.verdict import Verdict
from rayvous.faults.simulated.judging import books_problems
from rayvous.protocol.effects import Effect, Persist
from rayvous.protocol.errors import InputError, StorageFailed
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.stability import Stability
from rayvous.recovery.durability.journal import TABLE
from rayvous.recovery.durability.numbered_links import CrashRecover
from rayvous.recovery.durability.sqlite_store import SqliteStore
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.datagrams import Datagrams
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

TREE = ClusterTree(4, 2, degree=2).positions()
SMALL = Stability(retransmit_seconds=0.1, inputs_max=3, window_messages=3)


every_scheme = pytest.mark.parametrize("scheme", of_each_kind(NAMES))
SEVERAL_WAYS = ("lbdd", "flooding+graph")
"""Where how events are split, or over which link the first copy comes, depends on when they arrive."""


def play(net: Any) -> None:
    """Subscribe, cover, publish and cancel at several brokers; the network settles before each change."""
    for client, broker, number, selector in (
        ("alice", 7, 1, "x > 5"),
        ("bob", 3, 1, "x > 8"),
        ("alice", 7, 2, "x > 0"),
        ("carol", 0, 1, "x = 7 OR x = 9"),
    ):
        net.subscribe(client, broker, selector, number)
        net.rest()
    for i in range(3):
        net.publish("pub", 5, [{"x": 3 * i}, {"x": 3 * i + 1}, {"x": 9}])
        net.publish("rim", 2, [{"x": 7 + i}])
    net.rest()
    net.unsubscribe("alice", 2)
    net.rest()
    net.subscribe("bob", 3, "x < 3", 2)
    net.rest()
    net.publish("pub", 5, [{"x": x} for x in range(10)])
    net.rest()
    net.unsubscribe("bob", 1)
    net.rest()


def state(net: Simulation) -> dict[int, Any]:
    """Return what each broker keeps: its router, with the order of its tables, and its message numbers."""
    return {
        broker: (
            host.machine.router.snapshot(),
            host.machine.layer(CrashRecover)._heard,
            {link: out.last for link, out in host.machine.layer(CrashRecover)._out.items()},
            host.machine.layer(CrashRecover)._unacknowledged._last,
        )
        for broker, host in net.hosts.items()
    }


def heard_by(net: Simulation) -> list[tuple[str, str, int]]:
    """Return what each client was notified of."""
    return sorted((note.client, note.publisher, note.sequence) for note in net.account.notifications())


def mended(net: Simulation) -> Verdict:
    """Assert that nothing is lost, duplicated or out of order and brokers are sound; return the verdict."""
    verdict = judge(net.account)
    assert not verdict.violated and not verdict.lost, verdict.examples
    for host in net.hosts.values():
        host.machine.check()
    return verdict


def holds(net: Simulation) -> None:
    """Assert also that nobody got an event that it did not have to get."""
    verdict = mended(net)
    assert verdict.notifications_delivered == verdict.notifications_expected > 0


@pytest.mark.parametrize("every", [13, slow(5), thorough(1)])
@pytest.mark.parametrize("scheme, last_words", [("hybrid", True), ("hierarchical", False)])
def test_a_crash_between_any_two_effects_leaves_no_trace(
    scheme: str, last_words: bool, every: int, scripted: type[Any]
) -> None:
    assert crash_everywhere(scripted, scheme, last_words, every) > 200 / every


# Options are also in `test_so_it_is_under_every_scheme`, which crashes brokers at moments that are drawn.
@pytest.mark.parametrize(
    ("scheme", "every"),
    [
        (slow if every == 17 and scheme in KINDS else thorough)(scheme, every)
        for scheme in NAMES
        for every in (17, 7)
    ],
)
def test_nor_does_it_under_any_scheme(scheme: str, every: int, scripted: type[Any]) -> None:
    last_words = NAMES.index(scheme) % 2 == 0
    assert crash_everywhere(scripted, scheme, last_words, every) > 70 / every


def crash_everywhere(scripted: type[Any], scheme: str, last_words: bool, every: int = 1) -> int:
    """Crash each broker after every `every`-th of its effects, one run each; return the number of runs."""
    never = scripted(TREE, scheme, last_words=last_words)
    play(never)
    holds(never)
    wanted, heard = state(never), heard_by(never)
    runs = 0
    for broker, effects in never.effects.items():
        for boundary in range(0, effects, every):
            net = scripted(TREE, scheme, last_words=last_words)
            net.crash_after(broker, boundary)
            play(net)
            assert net.hosts[broker].incarnation == 1, (broker, boundary)
            holds(net)
            if scheme not in SEVERAL_WAYS:
                assert state(net) == wanted, (broker, boundary)
            assert heard_by(net) == heard
            runs += 1
    return runs


@pytest.mark.parametrize(
    ("scheme", "admission"),
    [
        pytest.param(
            scheme, admission, id=f"{scheme}{'-admission' if admission else ''}",
            marks=(
                (pytest.mark.slow, pytest.mark.thorough) if (at % 4 == 0) != bool(admission)
                else () if scheme in KINDS else pytest.mark.slow
            ),
        )
        for at, scheme in enumerate(NAMES)
        for admission in (None, AdmissionConfig(0.0))
    ],
)  # fmt: skip
def test_a_record_that_was_condensed_again_and_again_is_that_of_the_same_layers(
    scheme: str, admission: AdmissionConfig | None
) -> None:
    """A client subscribes and cancels at a broker that crashes now and then; it gets all its events."""
    stability = Stability(retransmit_seconds=0.1, inputs_max=12)
    net = Simulation(TREE, scheme, store=in_memory, stability=stability, admission=admission)
    if admission is not None:
        net.advertise("pub", 1, "x >= 0", 10.0)
    assert net.settle()
    condensed = 0
    for turn in range(60):
        net.subscribe("alice", 7, f"x > {turn}", turn + 1)
        if turn >= 4:
            net.unsubscribe("alice", turn - 3)
        if turn % 10 == 5:
            assert net.settle()
            net.publish("pub", 1, [{"x": turn - 3}, {"x": turn}, {"x": turn - 9}])
            net.crash_after(7, 3)
            assert not net.settle(1.0)
            net.restart(7)
        net.advance(0.05)
        condensed += any(key == ("state",) for key, _ in net.hosts[7].store.rows(TABLE))
    assert net.settle() and condensed > 20
    net.publish("pub", 1, [{"x": x} for x in range(65)])
    assert net.settle()
    verdict = mended(net)
    assert verdict.notifications_expected >= 8 and books_problems(net) == []


@every_scheme
def test_what_a_publisher_s_broker_has_numbered_outlives_it(scheme: str) -> None:
    net = Simulation(TREE, scheme, store=in_memory, stability=Stability(retransmit_seconds=0.1, inputs_max=5))
    for broker in range(8):
        net.subscribe(f"s{broker}", broker, f"x > {broker // 2}", 1)
    assert net.settle()
    for turn in range(12):
        net.publish("pub", 2, [{"x": turn % 5}])
        if turn % 3 == 2:
            net.advance(0.02)
            net.crash_after((2, 0, 3, 2)[turn // 3], 0)
            net.publish("rim", 5, [{"x": 4}])
            net.settle(1.0)
            for broker, host in net.hosts.items():
                if not host.alive:
                    net.restart(broker)
        assert net.settle()
    assert sum(host.incarnation for host in net.hosts.values()) >= 2
    holds(net)


def chaos(seed: int, scheme: str | None = None) -> Simulation:
    """Run random steps with bad links, crashes, restarts and churn; then repair everything and settle."""
    rng = random.Random(f"crash/{seed}")
    positions = ClusterTree(rng.randint(1, 5), rng.randint(1, 3), degree=rng.randint(1, 3)).positions()
    brokers = [place.broker for place in positions]
    net = Simulation(
        positions,
        scheme or rng.choice(["hybrid", "hierarchical"]),
        stability=Stability(
            retransmit_seconds=0.1,
            window_messages=rng.choice([2, 8, 64]),
            inputs_max=rng.choice([2, 1000]),
            queue_events_max=rng.choice([4, 1000]),
        ),
        datagrams=Datagrams(rng.random() * 0.3, rng.random() * 0.3, rng.random() * 0.2),
        store=in_memory,
        seed=seed,
        last_words=rng.random() < 0.5,
    )
    subscribed: list[tuple[str, int]] = []
    for turn in range(60):
        client = rng.choice(["a", "b", "c", "d"])
        broker = brokers[ord(client) % len(brokers)]
        act = rng.random()
        known = net.hosts[broker].alive or client in net.sessions
        if act < 0.2 and known:
            low = rng.randint(0, 9)
            net.subscribe(client, broker, f"x BETWEEN {low} AND {low + rng.randint(0, 5)}", turn)
            subscribed.append((client, turn))
        elif act < 0.3 and subscribed:
            net.unsubscribe(*subscribed.pop(rng.randrange(len(subscribed))))
        elif act < 0.7:
            name, home = rng.choice(
                [("p", brokers[-1]), ("q", brokers[0]), ("r", brokers[len(brokers) // 2])]
            )
            if net.hosts[home].alive or name in net.sessions:
                net.publish(name, home, [{"x": rng.randint(0, 15)} for _ in range(rng.randint(1, 4))])
        elif act < 0.8:
            net.crash_after(rng.choice(brokers), rng.randint(0, 12))
        elif act < 0.9:
            net.restart(rng.choice(brokers))
        else:
            net.advance(rng.random())
        net.advance(rng.random() * 0.05)
    for broker in brokers:
        net.hosts[broker].fuse = None
        net.restart(broker)
    assert net.settle(400), seed
    for name in ("p", "q", "r"):  # once all is repaired, every subscription is served
        if name in net.sessions:
            net.publish(name, net.sessions[name].home.id, [{"x": x} for x in range(16)])
    assert net.settle(400), seed
    return net


@pytest.mark.parametrize("seed", seeds(25))
def test_chaos_with_crashes_and_bad_links_loses_and_repeats_nothing(seed: int) -> None:
    """In three of the runs no event surely had to come: nobody subscribed long enough."""
    assert mended(chaos(seed)).holds == (seed not in (1, 7, 23))


@every_scheme
@pytest.mark.parametrize("seed", seeds(3))
def test_so_it_is_under_every_scheme(seed: int, scheme: str) -> None:
    mended(chaos(seed, scheme))


@pytest.mark.slow
def test_a_broker_that_acknowledges_before_it_commits_is_caught(
    monkeypatch: pytest.MonkeyPatch, scripted: type[Any]
) -> None:
    right = Pipeline._handle

    def wrong(pipeline: Pipeline[Any], event: Any) -> list[Effect]:
        return sorted(right(pipeline, event), key=lambda effect: isinstance(effect, Persist))

    monkeypatch.setattr(Pipeline, "_handle", wrong)
    caught = 0
    for boundary in range(40):
        net = scripted(TREE, "hybrid", last_words=True)
        net.crash_after(3, boundary)
        try:
            play(net)
            caught += not judge(net.account).holds
        except (
            AssertionError,
            StorageFailed,
        ):  # never settles, or its neighbours know more than its store
            caught += 1
    assert caught


def test_a_disk_that_fills_and_is_mended_loses_nothing(tmp_path: Path) -> None:
    def store(broker: int) -> SqliteStore:
        return SqliteStore(tmp_path / f"broker-{broker}.sqlite", "off", pages_max=40 if broker == 3 else None)

    net = Simulation(TREE, stability=SMALL, store=store)
    net.subscribe("alice", 7, "x >= 0", 1)
    net.subscribe("bob", 0, "x >= 5", 1)
    assert net.settle()
    for x in range(30):
        net.publish("pub", 2, [{"x": x % 10, "s": "a" * 60_000}])
        net.advance(0.001)
        if 3 in net.failures:
            break
    assert "full" in str(net.failures[3]) and not net.hosts[3].alive
    net.advance(1.0)
    assert not net.settle(3.0)  # what the full broker did not take in, nobody took in
    full = net.hosts[3].store
    assert isinstance(full, SqliteStore)
    full._pragma("max_page_count = 100000")
    assert net.restart(3) and net.settle()
    verdict = judge(net.account)
    assert verdict.holds and not verdict.lost and verdict.notifications_delivered > 0, verdict.examples
    for host in net.hosts.values():
        host.store.close()


def test_what_nobody_acknowledges_is_never_settled_and_that_is_said() -> None:
    with pytest.raises(InputError, match="waits for acknowledgements of brokers with stores"):
        Simulation(TREE).settle()
