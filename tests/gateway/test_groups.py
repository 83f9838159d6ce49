"""A consumer group at a gateway: each stream is a worker, and its deliveries are acknowledged and refused by id."""

import pytest
from rayvous.protocol.errors import (
    AccessDenied,
    BrokerUnavailable,
    ClientError,
    InputError,
    LimitReached,
    NotGiven,
)
from rayvous.protocol.gateways import AccessConfig, Principal, digest_of


def numbers(items):
    return [item.sequence for item in items]


async def shared(gateway, tokens, count=2, **group):
    """Return a gateway, its network, and so many sessions of alice, each with a stream of one group."""
    core = gateway()
    sessions = [await core.open(tokens["alice"]) for _ in range(count)]
    streams = [await each.subscribe("n >= 0", durable="work", group=group) for each in sessions]
    return core, core.upstream, sessions, streams


async def publish(session, *numbers, **more):
    await session.publish([{"n": number} | more for number in numbers])


def test_streams_of_a_name_share_its_events_and_none_is_taken_over(run, gateway, tokens):
    async def go():
        core, network, (first, _), (one, two) = await shared(gateway, tokens)
        await publish(first, *range(150))
        got = [[], []]
        while sum(map(len, got)) < 150:
            for had, each in zip(got, (one, two), strict=True):
                had += await each.receive(timeout_seconds=0.001)
        assert one.ended is None and two.ended is None and core.streams == 2
        assert sorted(numbers(got[0]) + numbers(got[1])) == [*range(1, 151)]
        assert {item.deliveries for items in got for item in items} == {1}
        await one.close()
        more = []
        while len(more) < len(got[0]):
            await two.acknowledge((got[1] + more)[-1].id)
            more += await two.receive()
        assert numbers(more) == numbers(got[0]), "the other one gets what it held"
        group = network.groups["alice/work"]
        assert len(group.workers) == 1 and len(group.machine) <= 150

    run(go())


def test_each_delivery_is_acknowledged_alone_or_with_those_before_it(run, gateway, tokens):
    async def go():
        _, network, (session, _), (one, two) = await shared(gateway, tokens)
        await two.close()
        await publish(session, *range(5))
        items = await one.receive()
        machine = network.groups["alice/work"].machine
        await one.acknowledge(items[3].id, alone=True)
        assert machine.progress().done == {"alice": [(4, 4)]}
        await one.acknowledge(items[1].id)
        assert machine.position == {"alice": 2}
        for id in (items[1].id, "alice:77", "x"):
            with pytest.raises(NotGiven, match="not the id of a delivery that this worker holds"):
                await one.acknowledge(id)
        await session.acknowledge("work", items[4].id)  # from any connection
        assert machine.position == {"alice": 5}

    run(go())


def test_what_is_refused_comes_again_and_says_how_often(run, gateway, tokens):
    async def go():
        _, network, (session, other), (one, two) = await shared(gateway, tokens)
        await two.close()
        await publish(session, 1)
        (item,) = await one.receive()
        await one.refuse(item.id, 3.0)
        group = network.groups["alice/work"]
        assert await one.receive(timeout_seconds=0.01) == []
        group.now = 3.0
        group.tell()
        (again,) = await one.receive()
        assert (again.id, again.deliveries) == (item.id, 2)
        await other.refuse("work", again.id)
        (third,) = await one.receive()
        assert third.deliveries == 3
        with pytest.raises(NotGiven):
            await other.refuse("work", "alice:9")
        with pytest.raises(InputError, match="seconds"):
            await other.refuse("work", third.id, -1.0)
        with pytest.raises(InputError, match="'none' is no group that is open here"):
            await other.refuse("none", third.id)

    run(go())


def test_what_was_taken_from_a_worker_is_not_acknowledged(run, gateway, tokens):
    async def go():
        _, network, (session, _), (one, two) = await shared(gateway, tokens)
        await two.close()
        await publish(session, 1)
        (item,) = await one.receive()
        machine = network.groups["alice/work"].machine
        machine.tick(60.5)
        with pytest.raises(NotGiven, match="taken from it"):
            await one.acknowledge(item.id)
        assert machine.position == {}

    run(go())


def test_a_stream_that_stood_still_gets_more_when_nothing_is_queued_for_its_client(run, gateway, tokens):
    async def go():
        _, network, (session, _), (one, two) = await shared(gateway, tokens)
        await two.close()
        await publish(session, *range(3))
        items = await one.receive()
        group = network.groups["alice/work"]
        group.now = 60.5
        group.machine.hear(one._worker.name, 60.5, asks=False)
        group.machine.tick(60.5)
        group.tell()
        assert await one.receive(timeout_seconds=0.01) == [], (
            "it has asked, and is heard with what comes next"
        )
        assert not any(one.has(item.id) for item in items), "it is told what it has lost"
        group.tell()
        (again,) = await one.receive()
        assert (again.id, again.deliveries) == (items[0].id, 2)
        await one.acknowledge(again.id)
        with pytest.raises(NotGiven, match="settled, taken from it, or never given"):
            await one.acknowledge(items[1].id)
        assert group.machine.position == {"alice": 1}

    run(go())


def test_a_delivery_whose_acknowledgement_is_not_stored_can_be_acknowledged_again(run, gateway, tokens):
    async def go():
        _, network, (session, _), (one, two) = await shared(gateway, tokens)
        await two.close()
        await publish(session, 1)
        (item,) = await one.receive()
        settle = one._worker.settle

        async def fails(acknowledged, refused):
            raise BrokerUnavailable("not now")

        one._worker.settle = fails
        for call in (one.acknowledge(item.id), one.refuse(item.id)):
            with pytest.raises(BrokerUnavailable):
                await call
        one._worker.settle = settle
        await one.acknowledge(item.id)
        assert network.groups["alice/work"].machine.position == {"alice": 1} and not one.has(item.id)

    run(go())


def test_a_group_belongs_to_a_principal_with_rights_and_has_one_subscription_and_settings(
    run, gateway, tokens
):
    async def go():
        core, network, _, _ = await shared(gateway, tokens, group_key="k")
        session = await core.open(tokens["alice"])
        with pytest.raises(InputError, match="has subscribed to n >= 0"):
            await session.subscribe("n > 5", durable="work", group={"group_key": "k"})
        with pytest.raises(InputError, match="group_key='k' instead of None"):
            await session.subscribe("n >= 0", durable="work", group={})
        with pytest.raises(InputError, match="a group has a name"):
            await session.subscribe("n >= 0", group={})
        with pytest.raises(InputError, match="colour: a group has no such setting"):
            await session.subscribe("n >= 0", durable="work", group={"colour": 1})
        bob = await core.open(tokens["bob"])
        with pytest.raises(AccessDenied):
            await bob.subscribe("n >= 0", durable="work", group={"group_key": "k"})
        nobody = await core.open(None)
        with pytest.raises(AccessDenied, match="belongs to a principal"):
            await nobody.subscribe("public = TRUE", durable="work", group={})
        assert [*network.groups] == ["alice/work"] and len(network.groups["alice/work"].workers) == 2
        await session.unsubscribe("work", group=True)
        with pytest.raises(InputError, match="there is no group"):
            await session.unsubscribe("work", group=True)
        assert not network.groups

    run(go())


def test_a_group_and_a_durable_name_are_two_names_also_if_they_are_called_the_same(run, gateway):
    mine = Principal((digest_of("t"),), "TRUE", "TRUE", durables_max=2)

    async def go():
        session = await gateway(access=AccessConfig({"me": mine})).open("t")
        await session.subscribe("TRUE", durable="work")
        await session.subscribe("TRUE", durable="work", group={})
        with pytest.raises(LimitReached, match="durables_max"):
            await session.subscribe("TRUE", durable="more")
        await session.unsubscribe("work", group=True)
        await session.subscribe("TRUE", durable="more")
        with pytest.raises(LimitReached, match="durables_max"):
            await session.subscribe("TRUE", durable="work", group={})

    run(go())


def test_a_session_that_ends_gives_back_what_its_workers_held(run, gateway, tokens):
    async def go():
        core, network, (first, second), (one, two) = await shared(gateway, tokens)
        await publish(first, 1)
        held = {1: one, 2: two}
        got = [(each, await each.receive(timeout_seconds=0.05)) for each in held.values()]
        (holder,) = [each for each, items in got if items]
        other = two if holder is one else one
        await (first if holder is one else second).close()
        assert numbers(await other.receive()) == [1]
        await core.close()
        assert network.groups["alice/work"].workers == []
        with pytest.raises(ClientError):
            await second.refuse("work", "alice:1")

    run(go())
