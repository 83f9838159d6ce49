"""Which schemes can distribute payloads follows from what their routers have, not from their names."""

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.routing.schemes.mesh import MeshRouter
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.schemes.router import PayloadRouting
from rayvous.routing.topologies.cluster_trees import ClusterTree

ABLE = sorted(name for name, made in SCHEMES.items() if issubclass(made, PayloadRouting))


def test_schemes_in_which_each_broker_knows_what_all_clients_want_distribute_payloads() -> None:
    assert ABLE == ["lbdd", "point-to-point"]


@pytest.mark.parametrize("name", ABLE)
def test_copies_reach_each_target_once(name: str) -> None:
    made = scheme(name)
    router = made(made.positions(ClusterTree(12, 1).positions())[3])
    assert isinstance(router, PayloadRouting)
    targets = tuple(broker for broker in range(12) if broker != 3)
    copies = router.copies(3, targets)
    assert sorted(to for each in copies.values() for to in each) == list(targets)
    assert sorted(router.neighbours()) == list(targets)
    assert router.wanting(batch_of([{"a": 1}], publisher="p")) == ()


def test_a_scheme_of_a_user_that_has_it_is_one_of_them() -> None:
    class Own(MeshRouter):
        """A mesh under another name."""

    class Without:
        """Knows who wants an event, but not who sends copies."""

        wanting = MeshRouter.wanting

    assert issubclass(Own, PayloadRouting) and not issubclass(Without, PayloadRouting)
