"""The group of a cluster: a member that is dead or does not answer does not block the others."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorDiedError, ActorUnavailableError, ObjectStoreFullError
from rayvous.actors.host import group as group_file
from rayvous.actors.host.group import CALLS_OUT_MAX, CALLS_UNWAITED_MAX, INLINE_BYTES_MAX, MulticastGroup
from rayvous.actors.host.outbox import Outbox, Peer, Regrouped, Renewed
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.pubsub import Events, Installed
from rayvous.protocol.telemetry.tables import CarriedOut

LARGE = INLINE_BYTES_MAX // 1_000 + 1
"""So many events with a text of 1,000 characters are a large load."""


class Members:
    """Three members: 1 is well, 2 may be silent, 3 may be dead."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.answering = asyncio.Event()
        self.answering.set()
        self.dead = False

    async def receive(self, to: int, source: int, messages: Any) -> None:
        self.calls[to] += 1
        if to == 2:
            await self.answering.wait()
        if to == 3 and self.dead:
            raise ActorDiedError

    def peers(self) -> list[Peer]:
        return [Peer(broker, self.receive, True) for broker in (1, 2, 3)]


def test_the_dead_are_counted_once_and_then_left_out() -> None:
    async def run() -> None:
        members = Members()
        group = MulticastGroup(0, members.peers(), patience_seconds=20.0)
        assert await group.fly([Installed(1)]) == 0
        members.dead = True
        assert [await group.fly([Installed(1)]) for _ in range(3)] == [1, 0, 0]
        assert members.calls == {1: 4, 2: 4, 3: 2}

    asyncio.run(run())


def test_who_does_not_answer_holds_nobody_up_for_long_and_gets_what_it_missed_in_order() -> None:
    async def run() -> None:
        members = Members()
        group = MulticastGroup(0, members.peers(), patience_seconds=0.001)
        members.answering.clear()
        for _ in range(CALLS_OUT_MAX):
            assert await group.fly([Installed(1)]) == 0
        assert await group.fly([Installed(1)]) == 1, "too many calls are out: it gets nothing more"
        assert members.calls[1] == CALLS_OUT_MAX + 1 and members.calls[2] == CALLS_OUT_MAX
        members.answering.set()
        await asyncio.sleep(0.01)
        assert await group.fly([Installed(1)]) == 0

    asyncio.run(run())


def test_nobody_waits_for_a_member_whose_host_could_not_be_reached_for_a_while() -> None:
    async def run() -> None:
        members = Members()
        members.answering.clear()
        unreached = {2}
        group = MulticastGroup(0, members.peers(), patience_seconds=60.0, unreached=unreached.__contains__)
        for _ in range(CALLS_UNWAITED_MAX + 1):
            assert await asyncio.wait_for(group.fly([Installed(1)]), PATIENCE_SECONDS) == 0
        assert members.calls[1] == members.calls[3] == CALLS_UNWAITED_MAX + 1
        flying = asyncio.ensure_future(group.fly([Installed(1)]))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not flying.done() and members.calls[1] == CALLS_UNWAITED_MAX + 2, "now the group waits"
        members.answering.set()
        assert await flying == 0 and members.calls[2] == CALLS_UNWAITED_MAX + 2, "it has all of it"

    asyncio.run(run())


def test_a_multicast_goes_to_those_that_were_the_group_when_it_was_wanted() -> None:
    """A leaving member thus still gets the heartbeat that excludes it, which is queued before its removal."""

    async def run() -> None:
        members = Members()
        one, two, three = members.peers()
        group = MulticastGroup(0, [one, two], patience_seconds=20.0)
        box = Outbox("broker 0 to its group", group.fly, 100, 100)
        box.put(Installed(1))
        box.put(Regrouped((two, three)))
        box.put(Installed(2))
        await box.drained()
        assert members.calls == {1: 1, 2: 2, 3: 1}
        box.put(Regrouped(()))
        box.put(Installed(3))
        await box.drained()
        assert members.calls == {1: 1, 2: 2, 3: 1}

    asyncio.run(run())


def test_who_the_members_are_is_known_also_when_what_they_were_to_get_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        members = Members()
        one, two, three = [Peer(each.broker, each.receive, False) for each in members.peers()]
        group = MulticastGroup(0, [one, two], patience_seconds=20.0)
        monkeypatch.setattr(group_file.ray, "put", no_room)
        with pytest.raises(MemoryError):
            await group.fly([large_events(), Regrouped((three,))])
        assert await group.fly([Installed(1)]) == 0
        assert members.calls == {3: 1}

    def no_room(value: Any) -> Any:
        raise MemoryError

    asyncio.run(run())


def test_a_group_in_which_all_are_dead() -> None:
    async def run() -> None:
        members = Members()
        members.dead = True
        group = MulticastGroup(0, members.peers()[2:], patience_seconds=20.0)
        assert await group.fly([Installed(1)]) == 1
        assert await group.fly([Installed(1)]) == 0

    asyncio.run(run())


def test_a_member_that_is_started_again_gets_what_is_sent_from_then_on() -> None:
    async def run() -> None:
        members = Members()
        group = MulticastGroup(0, members.peers(), patience_seconds=0.001)
        members.dead = True
        members.answering.clear()
        for _ in range(CALLS_OUT_MAX + 2):
            await group.fly([Installed(1)])
        assert members.calls[3] == 1 and members.calls[2] == CALLS_OUT_MAX
        members.dead = False
        group.begin_anew(3)
        group.begin_anew(2)
        assert await group.fly([Installed(1)]) == 0
        assert members.calls[3] == 2 and members.calls[2] == CALLS_OUT_MAX + 1
        members.answering.set()
        await asyncio.sleep(0.01)
        assert await group.fly([Installed(1)]) == 0

    asyncio.run(run())


@pytest.mark.parametrize("begun_anew", ["after it was skipped", "before a call fails"])
def test_what_a_member_missed_before_its_new_life_was_heard_of_is_told_then(begun_anew: str) -> None:
    """Others may have reported the new incarnation before, and the lost messages may have been for it."""

    async def run() -> None:
        gate, error, got = asyncio.Event(), ActorDiedError(), list[int]()

        async def receive(to: int, source: int, messages: Any) -> None:
            if error is not None:
                await gate.wait()
                raise error
            got.extend(message.token for message in messages)

        missed = list[tuple[int, bool]]()
        group = MulticastGroup(
            0, [Peer(2, receive, True)], 0.001, lambda member, ago, anew: missed.append((member, anew))
        )
        if begun_anew == "after it was skipped":
            gate.set()
            assert [await group.fly([Installed(1)]) for _ in range(2)] == [1, 0] and missed == []
        else:
            await group.fly([Installed(1)])
        group.begin_anew(2)
        gate.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert missed == [(2, True)]
        error = None
        await group.fly([Installed(2), Renewed(2), Installed(3)])
        assert got == [3]
        group.begin_anew(2)
        assert missed == [(2, True)], "nothing was lost since"

    asyncio.run(run())


def test_a_member_that_has_missed_a_load_is_told_of_once_and_gets_what_comes_after_it_is_renewed() -> None:
    async def run() -> None:
        got: dict[int, list[int]] = {1: [], 2: []}
        failing = True

        async def receive(to: int, source: int, messages: Any) -> None:
            if to == 2 and failing:
                raise ConnectionResetError("gone for a moment")
            got[to] += [message.token for message in messages]

        missed: list[int] = []
        members = [Peer(broker, receive, True) for broker in (1, 2)]
        group = MulticastGroup(0, members, 20.0, lambda member, seconds, anew: missed.append(member))
        assert await group.fly([Installed(1)]) == 1 and missed == [2]
        failing = False
        assert await group.fly([Installed(2)]) == 1, "nothing of what was said before it is renewed"
        assert await group.fly([Installed(3), Renewed(2), Installed(4)]) == 0
        assert await group.fly([Installed(5)]) == 0
        assert got == {1: [1, 2, 3, 4, 5], 2: [4, 5]} and missed == [2]

    asyncio.run(run())


def test_what_a_member_does_not_get_counts_as_lost_as_long_as_its_host_is_reached() -> None:
    """While the head of a Ray cluster is unreachable, nobody reports that a broker has died."""

    async def run() -> None:
        async def receive(to: int, source: int, messages: Any) -> None:
            raise ActorUnavailableError("not now", None)

        unreached = set[int]()
        group = MulticastGroup(
            0, [Peer(2, receive, True)], 20.0, lambda *missed: None, unreached=unreached.__contains__
        )
        assert [await group.fly([Installed(1)]) for _ in range(3)] == [1, 1, 1]
        unreached.add(2)
        assert [await group.fly([Installed(1)]) for _ in range(3)] == [0, 0, 0]

    asyncio.run(run())


def test_a_member_of_which_too_many_calls_are_out_has_missed_what_comes_then() -> None:
    async def run() -> None:
        members, missed = Members(), []
        told: Any = lambda member, seconds, anew: missed.append(member)  # noqa: E731
        group = MulticastGroup(0, members.peers(), 0.001, told)
        members.answering.clear()
        for _ in range(CALLS_OUT_MAX + 3):
            await group.fly([Installed(1)])
        assert missed == [2] and members.calls[2] == CALLS_OUT_MAX and members.calls[1] == CALLS_OUT_MAX + 3
        members.answering.set()
        await asyncio.sleep(0.01)
        await group.fly([Installed(1)])
        assert members.calls[2] == CALLS_OUT_MAX, "it answers, and does not know that it has missed anything"
        await group.fly([Renewed(2), Installed(1)])
        assert members.calls[2] == CALLS_OUT_MAX + 1

    asyncio.run(run())


def told(load: list[Any], *nodes: str | None, local: int = 0) -> CarriedOut:
    """Return the report of a load for members on these nodes, after `local` ones in the same process."""

    async def run() -> CarriedOut:
        rows: list[CarriedOut] = []

        async def receive(to: int, source: int, messages: Any) -> str | None:
            return ("here", *nodes)[max(0, to - local)] if to > local else "here"

        peers = [Peer(member, receive, member <= local) for member in range(1, local + len(nodes) + 1)]
        group = MulticastGroup(0, peers, carried_out=rows.append, node=lambda: "here")
        assert await group.fly(load) == 0
        (row,) = rows
        return row

    return asyncio.run(run())


def events(count: int) -> Events:
    return Events(batch_of([{"n": number} for number in range(count)], publisher="p"))


def large_events() -> Events:
    return Events(
        batch_of([{"text": f"{number:04}" + "x" * 1_000} for number in range(LARGE)], publisher="p")
    )


def test_a_small_load_is_a_copy_in_each_call() -> None:
    small = events(3)
    row = told([small, Installed(1)], "here", "far", "far", local=1)
    size = small.batch.nbytes
    assert row == CarriedOut(2, 3, size, 4, 3, 2, 0, 3 * size)


def test_a_large_load_is_a_copy_in_the_store_of_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[Any] = []
    monkeypatch.setattr(group_file.ray, "put", lambda value: put.append(value) or value)
    large = large_events()
    size = large.batch.nbytes
    assert size > INLINE_BYTES_MAX
    row = told([large], "here", "far", "far", "farther", local=1)
    assert row == CarriedOut(1, LARGE, size, 5, 4, 3, 1, 3 * size) and len(put) == 1
    alone = told([large], "far", local=2)
    assert alone == CarriedOut(1, LARGE, size, 3, 1, 1, 0, size) and len(put) == 1, (
        "one call carries it itself"
    )


def test_a_large_load_that_the_store_does_not_take_is_a_copy_in_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(value: Any) -> Any:
        raise ObjectStoreFullError("full")

    monkeypatch.setattr(group_file.ray, "put", full)
    large = large_events()
    size = large.batch.nbytes
    assert told([large], "here", "far", "far") == CarriedOut(1, LARGE, size, 3, 3, 2, 0, 3 * size)


def test_in_one_process_nothing_is_called() -> None:
    assert told([events(3)], local=2)[3:] == (2, 0, 0, 0, 0)


def test_a_member_of_this_process_takes_a_load_at_once_unless_an_earlier_one_is_out() -> None:
    async def run() -> None:
        loads: list[tuple[int, Any]] = []
        missed: list[int] = []
        answers: list[Any] = ["node", None, RuntimeError("it fails"), "node"]

        def at_once(to: int, source: int, load: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            if answer is None:  # something is to be waited for
                return gate
            loads.append((to, load))
            return answer

        async def receive(to: int, source: int, messages: Any) -> str:
            loads.append((to, messages))
            return "node"

        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        member = Peer(1, receive, True, at_once=at_once)
        group = MulticastGroup(0, [member], 0.001, lambda broker, ago, anew: missed.append(broker))
        before = len(asyncio.all_tasks())
        assert await group.fly([Installed(1)]) == 0
        assert loads == [(1, [Installed(1)])] and len(asyncio.all_tasks()) == before
        assert await group.fly([Installed(2)]) == 0, "it takes longer than anybody waits"
        assert await group.fly([Installed(3)]) == 0 and answers[0] is not None, "in order, by a call"
        gate.set_result("node")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await group.fly([Installed(4)]) == 1 and missed == [1]

    asyncio.run(run())
