"""What is reported of a run from successive surveys of its brokers."""

from typing import Any

from rayvous.faults.plans.plans import Crash, HostLink, Pause
from rayvous.faults.real.watching import Watch
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.recovery import ClusterView

ROOT = ClusterView(0, 0, 1, (0, 1))
LEAF = ClusterView(1, 0, 3, (2, 3))


def stands(broker: int, view: ClusterView, **changes: Any) -> dict[str, Any]:
    speaks = view.designated == broker
    root = view.cluster == 0
    said = {
        "broker": broker, "cluster": view.cluster, "view": view, "designated": speaks, "root": speaks and root,
        "parent": None if root or not speaks else ROOT, "children": (LEAF,) if root and speaks else (),
        "path": ((0,) if root else (0, 1)) if speaks else (), "term": 1, "round": RoundNumber(1, 1),
        "settled": True, "closed": [],
    }  # fmt: skip
    return said | changes


def network(**leaf: Any) -> dict[int, dict[str, Any]]:
    survey = {broker: stands(broker, ROOT) for broker in ROOT.members}
    return survey | {broker: stands(broker, LEAF) for broker in LEAF.members} | leaf.pop("more", {})


def test_takeovers_suspicions_joins_and_rounds_are_told_once() -> None:
    watch = Watch(degree=1)
    for now in (0.0, 0.1):
        assert watch.look(now, network()) == []
    assert watch.lines == []
    heir = ClusterView(1, 1, 2, (2,))
    alone = network(more={2: stands(2, heir, parent=None, path=())})
    del alone[3]
    assert watch.look(1.0, alone) == watch.look(1.1, alone) != []
    back = network(more={2: stands(2, heir, round=RoundNumber(1, 2))})
    back[1]["children"] = (heir,)
    del back[3]
    assert watch.look(2.0, back) == []
    assert watch.lines == [
        (1.0, "takeover: broker 2 speaks for cluster 1, epoch 1"),
        (1.0, "suspicion: broker 3 is no member of cluster 1 any more"),
        (1.0, "suspicion: cluster 1 has given up its parent, cluster 0"),
        (2.0, "join: cluster 1 below cluster 0"),
        (2.0, "round 1.2 has begun"),
    ]
    assert [sound for _, sound in watch.sound] == [True, True, False, False, True]


def test_a_crash_is_counted_by_what_the_broker_was() -> None:
    watch = Watch(degree=1)
    watch.look(0.0, network())
    for broker, role in ((0, "normal"), (1, "root"), (3, "designated"), (9, "unseen")):
        assert watch.kind_of(Crash(0.0, broker)) == f"crash_{role}"
    assert watch.kind_of(Pause(0.0, 1)) == "pause"
    assert watch.kind_of(HostLink(0.0, 1, 2.0)) == "host_link_cut"
    assert watch.kind_of(HostLink(0.0, 1, 2.0, megabits_per_second=1.0)) == "host_link_slow"
    assert watch.kind_of(HostLink(0.0, 1, 2.0, drop=0.1)) == "host_link_lossy"


def test_too_many_children_are_not_sound() -> None:
    crowded = network()
    crowded[1]["children"] = (LEAF, ClusterView(2, 0, 5, (5,)))
    assert "cluster 0 has 2 children, the degree is 1" in Watch(degree=1).look(0.0, crowded)
