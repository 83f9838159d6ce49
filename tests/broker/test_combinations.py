"""A broker is made of any features together, under every scheme of ours."""

import pytest
from rayvous.broker import Broker
from rayvous.broker.admission import Admitting
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.queries import Heals
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.routing.schemes.registry import NAMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("admission", [False, True])
def test_a_broker_is_made_of_everything(name: str, recovery: bool, store: bool, admission: bool) -> None:
    broker = Broker(
        scheme(name).positions(ClusterTree(2, 2).positions())[0],
        name,
        Recovery() if recovery else None,
        store=MemoryStore() if store else None,
        admission=AdmissionConfig() if admission else None,
    )
    broker.check()
    assert broker.ask(Heals()) == recovery
    assert (Admitting in map(type, broker.pipeline.layers)) == admission
