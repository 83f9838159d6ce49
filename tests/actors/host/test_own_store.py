"""A store backend of one's own: as short as the guide says, and brokers, simulated or not, recover from it."""

import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest
import rayvous as rv
from rayvous.actors.host.broker_store import BrokerStores
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.host.requests import Accepted
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.features import Features
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.routing.schemes.own import own
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ADDRESS = "own_store:Memory://flights"


@pytest.fixture(autouse=True)
def stores(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the examples on the import path; give what is stored there."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    stored = own("own_store:Memory").open.__globals__["STORES"]
    stored.clear()
    return stored


def test_it_has_ten_statements_as_the_guide_says() -> None:
    example = ast.parse((EXAMPLES / "own_store.py").read_text(encoding="utf-8"))
    (made,) = (node for node in example.body if isinstance(node, ast.ClassDef))
    lines = {node.lineno for node in ast.walk(made) if isinstance(node, ast.stmt)} | {made.lineno}
    documented = {
        node.lineno
        for node in ast.walk(made)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    assert len(lines - documented) <= 10


def test_simulated_brokers_recover_from_it(stores: Any) -> None:
    opened = BrokerStores(rv.Stable(ADDRESS).validate(), Features(stores=True))
    net = Simulation(ClusterTree(3, 1).positions(), store=lambda broker: opened.store_of(broker, 0))
    net.subscribe("alice", 2, "x >= 0", 1)
    assert net.settle()
    net.publish("bob", 1, [{"x": 1}, {"x": 2}])
    for broker in (0, 1, 2):
        net.crash(broker)
        assert net.restart(broker)
    assert net.settle()
    verdict = judge(net.account)
    assert verdict.holds and not verdict.lost and verdict.notifications_delivered == 2
    assert {broker for _, broker in stores} == {0, 1, 2}


def test_a_host_resumes_from_it_and_begins_empty(stores: Any) -> None:
    async def lives(incarnation: int) -> BrokerHost:
        stable = rv.Stable(ADDRESS)
        host = BrokerHost("hybrid", rv.Limits.for_tests(), recovery=Recovery.for_tests(), stable=stable)
        await host.start_brokers(ClusterTree(1, 1).positions(), incarnation)
        await host.connect({})
        return host

    async def test() -> None:
        host = await lives(0)
        await host.request(0, "bob", [Events(batch_of([{"x": 1}], publisher="bob", first_sequence=1))])
        assert (await (await lives(1)).request(0, "bob", [Accepted()]))[0] == 1
        with pytest.raises(StorageFailed, match="own_store:Memory://flights belongs to an earlier network"):
            await lives(0)

    asyncio.run(test())
    assert isinstance(stores[ADDRESS, 0], MemoryStore)


def test_where_an_address_is_told_apart_or_stands_in_a_file_it_stays_its_own(tmp_path: Path) -> None:
    backend = rv.Stable(ADDRESS).backend()
    assert backend.part("seed-7") == f"{ADDRESS}/seed-7" and backend.beside(tmp_path) == ADDRESS
    assert ADDRESS in repr(rv.Stable(ADDRESS))
