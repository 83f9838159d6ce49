"""A consumer group on Ray: workers share a subscription, die at random moments, and lose and repeat nothing.

Reference: docs/groups.md; the conditions of `faults/checker/groups.py`.
"""

import asyncio
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import rayvous as rv
from kills import kills, rng
from patience import PATIENCE_SECONDS, until
from rayvous.actors.groups.actor import GroupActor
from rayvous.actors.network import groups
from rayvous.actors.network.directory import NAMESPACE, group_name
from rayvous.clients.group import Hold, Token
from rayvous.faults.checker.groups import (
    Acknowledged,
    Acknowledging,
    Claimed,
    Gave,
    LostIt,
    Record,
    group_violations,
)
from rayvous.gateway.access import Access
from rayvous.gateway.core import Gateway
from rayvous.gateway.joined import Joined
from rayvous.protocol.errors import ClientError, GroupEnded, InputError, NotGiven
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of

KILLS = kills(5)


@pytest.fixture(scope="module")
def net(ray_started: None) -> Iterator[rv.Network]:
    with rv.Network.launch(
        rv.ClusterTree(2, 2), name="grouped", recovery=rv.Recovery.for_tests(), brokers_per_actor=4
    ) as net:
        yield net


def test_workers_share_and_say_of_each_event_what_became_of_it(net: rv.Network) -> None:
    one, two = net.subscribers(["shared"] * 2, group=True, deliveries_max=2, unacknowledged_max=50)
    assert one.subscribe("n > 0") == two.subscribe("n > 0"), "it is one subscription"
    with pytest.raises(InputError, match=r"has subscribed to n > 0, not to n > 1"):
        two.subscribe("n > 1")
    with pytest.raises(InputError, match="another group 'shared', with deliveries_max=2 instead of 5"):
        net.subscriber("shared", group=True)
    with pytest.raises(InputError, match="group: a group goes without broker"):
        net.subscriber("shared", group=True, broker=0)
    with pytest.raises(InputError, match="group: a group goes without broker"):
        net.subscribers(["shared"], group=True, take_over=True)
    for attach in (lambda: net.subscriber("x", group_key="x"), lambda: net.subscribers(["x"], group_key="x")):
        with pytest.raises(InputError, match="group_key: only a group has it"):
            attach()
    with pytest.raises(InputError, match="'group:shared' is the durable subscriber of a group"):
        net.subscribers(["x", "group:shared"])
    net.publisher("p").publish_batch([{"n": n} for n in range(1, 41)])
    got = {worker: [next(worker.notifications(PATIENCE_SECONDS))] for worker in (one, two)}
    until(lambda: len(one._machine.held) + len(two._machine.held) == 40)
    for worker in (one, two):
        got[worker] += worker.notifications(0)
        numbers = [note.sequence for note in got[worker]]
        assert numbers == sorted(numbers) and len(numbers) >= 10, "each has its share, in order"
    assert sorted(note.sequence for notes in got.values() for note in notes) == [*range(1, 41)]
    with pytest.raises(ClientError, match=r"not given to this worker"):
        two.ack(got[one][0])
    assert net.durable()[0].name == "group:shared" and net.durable()[0].events == 40
    first, *rest = got[one]
    one.nack(first)
    found: list[Any] = []

    def given_again() -> bool:
        found.extend((worker, note) for worker in (one, two) for note in worker.notifications(0.05))
        return bool(found)

    until(given_again)
    ((holder, again),) = found
    assert (again.sequence, again.deliveries) == (first.sequence, 2)
    with pytest.raises(ClientError, match=r"not given to this worker"):
        (two if holder is one else one).ack(again)
    holder.nack(again, seconds=0.1)
    until(lambda: len(net.dead_letters()) == 1)
    (letter,) = net.dead_letters()
    assert (letter.subscriber, letter.sequence, letter.event) == ("group:shared", first.sequence, first.event)
    assert letter.reason == f"deliveries: 2, and at the last one worker {holder.worker!r} refused it"
    one.ack(rest[-1])
    one.acknowledge()
    two.acknowledge(got[two][-1])
    until(lambda: net.durable()[0].events == 0)
    one.end()
    with pytest.raises(GroupEnded, match=r"group 'shared': the group has ended"):
        next(two.notifications(PATIENCE_SECONDS))
    assert net.durable() == []


def test_the_example_of_the_page_runs_as_it_stands(
    net: rv.Network, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(rv.__file__).parent / "docs" / "groups.md"
    code, said = re.findall(r"```(?:python|text)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)[:2]
    exec(code, {})
    lines = capsys.readouterr().out.splitlines(keepends=True)
    assert "".join(line for line in lines if "(raylet)" not in line) == said


class Worker:
    """A worker in a process of its own, which writes down what it gets and says before and after it does."""

    def __init__(self, network: str, folder: str) -> None:
        name = f"{os.getpid()}-{time.monotonic_ns()}"
        self._file = (Path(folder) / name).open("a", buffering=1)
        self._net = rv.Network.attach(network)
        self._worker = self._net.subscriber(
            "killed",
            group=True,
            group_key="key",
            silent_seconds=3.0,
            unacknowledged_max=20,
            deliveries_max=50,
        )
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        for note in self._worker.notifications():
            self._say("gave", note)
            time.sleep(0.002)  # the work
            self._say("acknowledging", note)
            try:
                self._worker.ack(note)
            except ClientError:
                continue  # another worker has it
            self._say("acknowledged", note)

    def _say(self, what: str, note: Any) -> None:
        line = [
            time.monotonic_ns(),
            what,
            self._worker.worker,
            note.publisher,
            note.sequence,
            note.deliveries,
        ]
        self._file.write(json.dumps(line) + "\n")

    def pid(self) -> int:
        return os.getpid()


def recorded(folder: Path) -> type[GroupActor]:
    """Return the class of a group's actor that writes down who holds what, also what it believes after a restart."""

    class Recorded(GroupActor):
        async def _begin(self) -> None:
            await super()._begin()
            file = (folder / f"group-{os.getpid()}").open("a", buffering=1)
            machine, opens_at = self._machine, [self._machine._opens_at]
            give, acknowledge, holds, loses, believes = (
                machine.give,
                machine.acknowledge,
                machine._holds,
                machine._loses,
                machine._believes,
            )

            def say(what: str, worker: str, event: tuple[str, int]) -> None:
                file.write(json.dumps([time.monotonic_ns(), what, worker, *event, 1]) + "\n")

            def given(name: str, now: float, most: int | None = None) -> list[Any]:
                if opens_at and now >= opens_at[0]:
                    opens_at.clear()
                    say("opens", "", ("", 0))
                return give(name, now, most)

            def held(name: str, event: tuple[str, int], now: float, token: Token) -> None:
                say("holds", name, event)
                holds(name, event, now, token)

            def believed(name: str, event: tuple[str, int], hold: Hold, now: float) -> bool:
                found = believes(name, event, hold, now)
                if opens_at and now < opens_at[0] and not found:
                    say("refused", name, event)
                return found

            def lost(name: str, event: tuple[str, int]) -> None:
                say("lost", name, event)
                loses(name, event)

            def acknowledged(name: str, event: tuple[str, int], now: float) -> bool:
                if machine.holds(name, event):
                    say("settled", name, event)
                return acknowledge(name, event, now)

            say("begins", "", ("", 0))
            for name, method in {
                "give": given, "acknowledge": acknowledged, "_holds": held, "_loses": lost, "_believes": believed,
            }.items():  # fmt: skip
                setattr(machine, name, method)

    return Recorded


def lines_of(folder: Path) -> list[tuple[int, str, str, str, int, int]]:
    return sorted(
        tuple(json.loads(line)) for each in folder.iterdir() for line in each.read_text().splitlines()
    )


def records_of(lines: list[tuple[int, str, str, str, int, int]]) -> list[Record]:
    """Return what the programs of workers got and said."""
    found = list[Record]()
    for _, what, worker, publisher, sequence, deliveries in lines:
        event = publisher, sequence
        match what:
            case "gave":
                found.append(Gave(worker, event, deliveries))
            case "acknowledging":
                found.append(Acknowledging(worker, event))
            case "acknowledged":
                found.append(Acknowledged(worker, event))
    return found


def holders_of(lines: list[tuple[int, str, str, str, int, int]]) -> list[Record]:
    """Return who held what as the group had it: a later process takes those for dead that have not claimed in time."""
    found, holder = list[Record](), dict[tuple[str, int], str]()
    claimed, claims = set[tuple[str, int]](), False
    for _, what, worker, publisher, sequence, _ in lines:
        event = publisher, sequence
        match what:
            case "begins":
                claimed, claims = set(), True
            case "refused":
                found.append(Claimed(worker, event, False))
            case "opens":
                claims = False
                found += [LostIt(of, each) for each, of in holder.items() if each not in claimed]
                holder = {each: of for each, of in holder.items() if each in claimed}
            case "holds":
                found.append(Claimed(worker, event) if claims else Gave(worker, event))
                holder[event] = worker
                claimed.add(event)
            case "settled":
                found.append(Acknowledging(worker, event))
            case "lost":
                found.append(LostIt(worker, event))
                holder.pop(event, None)
            case "acknowledged":
                found.append(Acknowledged(worker, event))
    return found


def test_a_second_holder_is_seen_unless_the_first_did_not_claim_in_time() -> None:
    begins, opens = (0, "begins", "", "", 0, 1), (0, "opens", "", "", 0, 1)

    def holds(worker: str) -> tuple[int, str, str, str, int, int]:
        return 0, "holds", worker, "p", 1, 1

    def refused(worker: str) -> tuple[int, str, str, str, int, int]:
        return 0, "refused", worker, "p", 1, 1

    for lines, sound in [
        ([holds("a"), holds("b")], False),
        ([holds("a"), begins, holds("a"), opens, holds("b")], False),
        ([holds("a"), begins, holds("b"), refused("a")], False),
        ([holds("a"), begins, holds("b"), opens], True),
        ([holds("a"), begins, opens, holds("b")], True),
        ([holds("a"), (0, "lost", "a", "p", 1, 1), holds("b")], True),
    ]:
        records = [*holders_of(lines), Acknowledged("b", ("p", 1))]
        assert (group_violations(records, [("p", 1)], {}, deliveries_max=1) == []) is sound, lines


def test_workers_and_the_group_are_killed_at_random_moments(
    net: rv.Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event reaches a worker, and none again that was acknowledged; no two hold it; a key keeps its order."""
    draw = rng()
    monkeypatch.setattr(groups, "own", lambda name: recorded(tmp_path))
    with net.subscriber("killed", group=True, group_key="key", silent_seconds=3.0, unacknowledged_max=20,
                        deliveries_max=50) as first:  # fmt: skip
        first.subscribe("key >= 0")
    kind = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Worker)
    workers = [kind.remote(net.name, str(tmp_path)) for _ in range(4)]
    ray.get([worker.pid.remote() for worker in workers], timeout=PATIENCE_SECONDS)
    publisher, keys = net.publisher("killer"), {}
    group = ray.get_actor(group_name(net.name, "killed"), namespace=NAMESPACE)
    for kill in range(KILLS):
        for _ in range(10):
            events = [{"key": draw.randrange(7)} for _ in range(5)]
            last = publisher.publish_batch(events)
            keys |= {("killer", last - 4 + place): event["key"] for place, event in enumerate(events)}
            time.sleep(draw.uniform(0, 0.05))  # the moment of the kill is anywhere in the work
        dies = group if kill % 7 == 3 else draw.choice(workers)
        os.kill(ray.get(dies.pid.remote(), timeout=PATIENCE_SECONDS), signal.SIGKILL)
    until(lambda: all(each.events == 0 for each in net.durable() if each.name == "group:killed"))
    ray.get([worker.pid.remote() for worker in workers], timeout=PATIENCE_SECONDS)
    lines = lines_of(tmp_path)
    records, holders = records_of(lines), holders_of(lines)
    # The process of a worker may die between the moment at which its acknowledgement is stored and its last line.
    confirmed = {each.event for each in records if isinstance(each, Acknowledged)}
    begun = {each.event for each in records if isinstance(each, Acknowledging)}
    assert len(begun - confirmed) <= KILLS and begun == keys.keys()
    unsaid = [Acknowledged("", event) for event in sorted(begun - confirmed)]
    records, holders = records + unsaid, holders + unsaid
    assert sum(isinstance(each, Gave) for each in holders) >= len(keys)
    assert group_violations(holders, sorted(keys), keys, deliveries_max=1) == []
    assert group_violations(records, sorted(keys), keys, deliveries_max=50, strict=False) == []
    assert net.dead_letters() == [] or all(one.subscriber != "group:killed" for one in net.dead_letters())
    assert len({each.worker for each in records if isinstance(each, Gave)}) >= 4
    for worker in workers:
        ray.kill(worker)


def test_streams_of_a_gateway_are_workers(net: rv.Network) -> None:
    """What HTTP and STOMP ask of the core of a gateway, on a real network."""
    access = AccessConfig({"alice": Principal((digest_of("token"),), publish="TRUE", subscribe="TRUE")})

    async def story() -> None:
        core = Gateway(Joined(rv.Network.attach(net.name), 1_000), Access(access), GatewayLimits())
        one, two = [await core.open("token") for _ in range(2)]
        streams = [
            await each.subscribe("of = 'gateway'", durable="work", group={"group_key": "n"})
            for each in (one, two)
        ]
        await one.publish([{"of": "gateway", "n": n} for n in range(20)])
        got: dict[int, list[Any]] = {0: [], 1: []}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(map(len, got.values())) < 20:
                for place, stream in enumerate(streams):
                    got[place] += await stream.receive(timeout_seconds=0.1)
        assert sorted(item.event["n"] for items in got.values() for item in items) == [*range(20)]
        assert got[0] and got[1], "each has its share"
        (behind,) = [each for each in net.durable() if each.name == "group:alice/work"]
        assert behind.events == 20
        await streams[0].acknowledge(got[0][-1].id)
        with pytest.raises(NotGiven):
            await streams[1].acknowledge(got[0][-1].id)
        refused = got[1].pop(0)
        await two.refuse("work", refused.id)
        for item in got[1]:
            await streams[1].acknowledge(item.id, alone=True)
        again: list[Any] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not again:
                for stream in streams:
                    again += [(stream, item) for item in await stream.receive(timeout_seconds=0.1)]
        ((stream, item),) = again
        assert (item.sequence, item.deliveries) == (refused.sequence, 2)
        await stream.acknowledge(item.id)
        await one.unsubscribe("work", group=True)
        assert not [each for each in net.durable() if each.name == "group:alice/work"]
        await core.close()

    asyncio.run(story())
