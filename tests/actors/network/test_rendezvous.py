"""The rendezvous point: one directory, unique names, clients spread evenly."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from rayvous.actors.network.game_days import CLAIM_SECONDS, NOTE_CHARACTERS_MAX, NOTES_MAX, Note
from rayvous.actors.network.rendezvous import START_SECONDS, Directory, Rendezvous
from rayvous.broker import newcomer
from rayvous.protocol.configs import Limits, Position
from rayvous.protocol.errors import BrokerUnavailable, ClientError, InputError
from rayvous.protocol.messages.recovery import RENDEZVOUS, AskRoot, ClusterView, Recovery, Root, RootBeat
from rayvous.protocol.messages.views import MembershipView, ViewBeat, ViewLeave
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree


@pytest.fixture
def rendezvous() -> Rendezvous:
    point = Rendezvous()
    positions = tuple(ClusterTree(2, 2).positions())
    hosts: dict[int, Any] = {position.broker: None for position in positions}
    point.open(Directory("net", "hybrid", Limits.for_tests(), positions, hosts, None))
    return point


def test_there_is_no_directory_before_it_is_opened() -> None:
    assert Rendezvous().directory() is None


def test_the_root_is_in_the_directory(rendezvous: Rendezvous) -> None:
    directory = rendezvous.directory()
    assert directory is not None
    root = next(position for position in directory.positions if position.broker == directory.root)
    assert root.role == "REB" and root.parent is None


def test_clients_go_where_the_fewest_are(rendezvous: Rendezvous) -> None:
    assert rendezvous.place("subscriber", ["a", "b", "c"], None).brokers == [0, 1, 2]
    assert rendezvous.place("publisher", ["a"], 3).brokers == [3]
    assert rendezvous.place("subscriber", ["d", "e"], None).brokers == [0, 1]
    rendezvous.leave("publisher", {"a": ""})
    assert rendezvous.place("subscriber", ["f"], None).brokers == [3]


def test_a_network_has_one_game_day_at_a_time_and_a_silent_one_is_forgotten() -> None:
    now = 100.0
    point = Rendezvous(clock=lambda: now)
    assert point.game_day("olga", [Note(1.0, "begins")]) == "" and point.game_day("walt", []) == "olga"
    now += CLAIM_SECONDS - 1
    assert (
        point.game_day("olga", [Note(2.0, "x" * 10_000, "bad")]) == ""
        and point.game_day("walt", []) == "olga"
    )
    now += CLAIM_SECONDS
    assert point.game_day("walt", []) == "" and point.game_day("olga", []) == "walt", (
        "olga was silent for too long"
    )
    assert point.game_day("walt", [], ends=True) == "" == point.game_day("olga", [])
    assert [(note.at, len(note.text)) for note in point.notes()] == [(1.0, 6), (2.0, NOTE_CHARACTERS_MAX)]
    point.game_day("olga", [Note(float(at), "more") for at in range(10 * NOTES_MAX)])
    assert len(point.notes()) == NOTES_MAX


def test_a_name_is_used_once_a_kind_and_free_again_when_it_left(rendezvous: Rendezvous) -> None:
    rendezvous.place("subscriber", ["a"], 0)
    rendezvous.place("publisher", ["a"], 0)
    with pytest.raises(ClientError, match="already a subscriber 'a'"):
        rendezvous.place("subscriber", ["new", "a"], 1)
    rendezvous.leave("subscriber", {"a": "", "never there": ""})
    assert rendezvous.place("subscriber", ["a", "new"], 1).brokers == [1, 1], (
        "nothing was placed by the call that failed"
    )


def test_a_name_is_not_given_twice_in_one_call(rendezvous: Rendezvous) -> None:
    with pytest.raises(ClientError, match="subscriber 'a' is named twice"):
        rendezvous.place("subscriber", ["a", "b", "a"], None)
    assert rendezvous.place("subscriber", ["a"], 0).brokers == [0]


def test_a_broker_that_is_not_there_is_refused(rendezvous: Rendezvous) -> None:
    with pytest.raises(InputError, match="no broker 9: there are 4, from 0 to 3"):
        rendezvous.place("publisher", ["p"], 9)
    assert rendezvous.place("publisher", ["p"], None).brokers == [0]


# In a network that heals.


class Memory:
    """A store that outlives the rendezvous point under test."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        self.values[name] = copy.deepcopy(value)

    def get(self, name: str) -> Any:
        return copy.deepcopy(self.values.get(name))

    def write(self, stored: dict[str, Any], copied: dict[str, Any]) -> None:
        for name, value in stored.items():
            self.put(name, value)

    def note(self, copied: dict[str, Any]) -> None: ...

    def keep(self, rest: Any) -> None: ...

    def close(self) -> None: ...


class Host:
    """A fake actor of a broker, which records what it was told."""

    def __init__(self, told: list[tuple[int, Any]]) -> None:
        self.receive = self
        self.told = told

    def __deepcopy__(self, memo: Any) -> "Host":
        return self

    def remote(self, to: int, source: int, messages: list[Any]) -> None:
        assert source == RENDEZVOUS
        self.told += [(to, message) for message in messages]


def lasting(
    memory: Memory, clock: Callable[[], float] | None = None
) -> tuple[Rendezvous, list[tuple[int, Any]]]:
    """Return a rendezvous point for three clusters of two brokers, with root 1, and what it sends."""
    positions = tuple(ClusterTree(3, 2).positions())
    told: list[tuple[int, Any]] = []
    hosts = {position.broker: Host(told) for position in positions}
    point = Rendezvous(memory, clock)
    assert point.directory() is None
    point.open(Directory("net", "hybrid", Limits.for_tests(), positions, hosts, None, Recovery.for_tests()))
    return point, told


@pytest.mark.parametrize("scheme_name", ["hybrid", "hypercube", "lbdd"])
def test_it_is_started_again_when_all_that_were_there_at_first_have_left(scheme_name: str) -> None:
    memory, hosts = Memory(), {broker: Host([]) for broker in range(3)}
    positions = tuple(scheme(scheme_name).positions(ClusterTree(2, 1).positions()))
    point = Rendezvous(memory)
    point.open(
        Directory("net", scheme_name, Limits.for_tests(), positions, hosts, None, Recovery.for_tests())
    )
    point.admit([Position(2, 0, "N2", (0, 2), 2, None, ())], hosts)
    point.receive(2, [ViewBeat(1, 0, (), False)])
    for broker in (0, 1):
        point.receive(broker, [ViewLeave()])
        point.forget(broker)
    again = Rendezvous(memory)
    directory = again.directory()
    assert directory is not None and [place.broker for place in directory.positions] == [2]
    assert again._machine is not None and point._machine is not None
    if scheme_name != "hybrid":  # its state comes with the heartbeat of another root
        assert again._machine.state() == point._machine.state()


def test_a_client_goes_to_the_highest_member_and_then_anywhere() -> None:
    point, _ = lasting(Memory())
    assert point.place("subscriber", ["s"], 2, "t").brokers == [2]

    def seen(dead: list[int]) -> dict[int, Any]:
        return {broker: point.host_of(broker) for broker in dead}

    def place(was: int, dead: list[int], away: list[int], wanted: int | None = None) -> int:
        answer = point.relocate("subscriber", "s", was, seen(dead), away, wanted)
        assert answer is not None and answer[1] is point.host_of(answer[0])
        return answer[0]

    assert place(2, [2], [2]) == 3
    assert place(2, [2], [2]) == 3, "asked again, the same answer"
    assert place(3, [3], [3]) == 0, "the cluster is gone: wherever the fewest are"
    assert place(0, [], [0]) == 1, "one that does not answer is not gone"
    assert place(1, [], [1], wanted=5) == 5 and place(5, [], [5], wanted=2) == 4, (
        "2 is dead: another member, then"
    )
    assert point.relocate("subscriber", "s", 4, {}, [0, 1, 4, 5]) is None, (
        "nobody is left that it has not tried"
    )
    assert place(4, [], [4], wanted=0) == 0
    with pytest.raises(BrokerUnavailable, match="broker 3 is gone"):
        point.place("publisher", ["p"], 3)
    assert point.place("publisher", ["p", "q"], None).brokers == [1, 4]
    with pytest.raises(BrokerUnavailable, match="no broker of the network is left"):
        point.relocate("subscriber", "s", 0, seen([0, 1, 2, 3, 4, 5]), [])


def test_who_died_while_there_was_no_rendezvous_point_is_out_of_the_next_view() -> None:
    """Only the former rendezvous point expected it; the next one counts from when all were last heard."""
    now = 1000.0
    memory, told = Memory(), []  # type: Memory, list[tuple[int, Any]]
    hosts = {broker: Host(told) for broker in range(3)}
    positions = tuple(scheme("lbdd").positions(ClusterTree(3, 1).positions()))
    recovery = Recovery.for_tests()
    point = Rendezvous(memory, lambda: now)
    point.open(Directory("net", "lbdd", Limits.for_tests(), positions, hosts, None, recovery))

    def pass_time(point: Rendezvous, seconds: float, living: tuple[int, ...]) -> None:
        nonlocal now
        until = now + seconds
        while now < until:
            now += recovery.heartbeat_seconds
            for broker in living:
                point.receive(broker, [ViewBeat(0, 1, (), False)])

    pass_time(point, 100.0, (0, 1, 2))
    now += 5.0
    again = Rendezvous(memory, lambda: now)
    pass_time(again, 2 * recovery.suspect_after_seconds, (0, 1))
    view = told[-1][1]
    assert isinstance(view, MembershipView) and list(view.born) == [0, 1]
    noted = recovery.retention_seconds / 10 + recovery.heartbeat_seconds
    assert (
        5.0
        <= view.repair_window_seconds - recovery.unnoticed_seconds
        <= 5.0 + 2 * recovery.suspect_after_seconds + noted
    )


def test_a_client_goes_to_the_nearest_and_of_equally_near_ones_to_that_with_the_fewest_clients(
    rendezvous: Rendezvous,
) -> None:
    near = ((2, 3), (1,), (0,))
    assert rendezvous.place("subscriber", ["a", "b", "c"], None, "t", near).brokers == [2, 3, 2]
    assert rendezvous.place("subscriber", ["d"], 0, "u", near).brokers == [0], "the one that is asked for"
    assert rendezvous.place("subscriber", ["e"], None, "v", ((9,),)).brokers == [1], "nobody near is there"
    assert rendezvous.place("subscriber", ["f"], None, "w", ()).brokers == [0]


def test_a_client_that_moves_goes_to_the_nearest_that_lives_or_the_least_loaded_when_it_was_placed_so() -> (
    None
):
    point, _ = lasting(Memory())
    point.place("subscriber", ["s", "t", "u"], 2)
    point.place("publisher", ["p"], 0)

    def move(name: str, near: Any, away: list[int] = [2]) -> int:  # noqa: B006
        answer = point.relocate("subscriber", name, 2, {2: point.host_of(2)}, away, None, near)
        assert answer is not None
        return answer[0]

    near = ((2, 5), (0, 4), (3,))
    assert move("s", near) == 5, "2 is nearer still, but dead; 3 is of the same cluster, but far"
    assert move("s", near, [2, 5]) == 4, "5 does not answer; 0 has a client more"
    assert move("t", ()) == 1, "the fewest clients, not the cluster"
    assert move("u", None) == 3, "the cluster"


def test_a_durable_client_is_placed_where_it_was_and_else_near() -> None:
    point, _ = lasting(Memory())
    near = ((4,), (1,))
    assert point.reattach("d", None, "t1", near)[0] == 4
    assert point.reattach("d", None, "t2", ((1,),))[0] == 4, "it was there"
    point.bury({4: point.host_of(4)})
    assert point.reattach("d", None, "t3", near)[0] == 1
    assert point.reattach_publisher("q", None, "t4", near)[0] == 1


def test_a_durable_client_that_asks_for_a_broker_that_has_left_is_placed_elsewhere() -> None:
    """It may have asked before the broker left; only a broker that never existed is an error."""
    point, _ = lasting(Memory())
    point.retire([2])
    assert point.reattach("d", 2, "t1")[0] == 0, "it is leaving"
    point.forget(2)
    assert point.reattach("e", 2, "t2")[0] == 1, "it has left"
    assert point.reattach_publisher("q", 2, "t3")[0] == 3
    for comes in (point.reattach, point.reattach_publisher):
        with pytest.raises(InputError, match="no broker 6: there are 6, from 0 to 5"):
            comes("f", 6, "t4")
        with pytest.raises(InputError, match="no broker 6"):
            comes("d", 6, "t5")  # also for a client that is known already


def test_a_broker_that_is_started_again_is_there_again() -> None:
    memory = Memory()
    point, _ = lasting(memory)
    point.place("subscriber", ["s"], 2)
    old = point.host_of(2)
    point.relocate("subscriber", "s", 2, {2: old}, [2])
    assert (
        point.next_incarnation(2) == 1 and point.next_incarnation(2) == 2 and point.next_incarnation(3) == 1
    )
    assert (
        point.next_incarnation(0, 1) == 1
        and point.next_incarnation(1) == 2
        and point.next_incarnation(0, 1) == 3
    )
    new = Host([])
    point.reborn(2, new, 2)
    with pytest.raises(BrokerUnavailable, match="started again by another process"):
        point.reborn(2, Host([]), 1)
    with pytest.raises(BrokerUnavailable, match="or has been"):
        point.start_again([2], old, "who saw only the old one die")
    point.relocate("subscriber", "s", 3, {2: old}, [3])  # too late: it saw only the old one die
    for each in (point, Rendezvous(memory)):
        assert each.host_of(2) is new and each.hosts()[2] is new
        assert (
            each.whereabouts(2) == (new, 2) and each.whereabouts(3)[1] == 0 and each.whereabouts(99) is None
        )
        assert each.next_incarnation(2) == 3
        assert each.place("publisher", [f"p{id(each)}"], 2).brokers == [2]


def test_of_two_operators_who_remove_what_the_other_leaves_one_does(rendezvous: Rendezvous) -> None:
    """Otherwise the last two brokers would each wait for the other to take over. Reference: promise 2."""
    everyone = (0, 1, 2, 3)
    assert rendezvous.let_leave([0, 1], everyone)
    assert not rendezvous.let_leave([2, 3], everyone)
    assert rendezvous.place("publisher", ["a", "b"], None).brokers == [2, 3], "who was refused takes clients"
    assert rendezvous.let_leave([2], everyone) and not rendezvous.let_leave([3], everyone)
    assert rendezvous.let_leave([0, 1], everyone), "a removal that was interrupted is asked for again"
    assert rendezvous.trustee_of(0, everyone) == 3


def test_of_two_processes_that_start_a_broker_again_at_once_one_does() -> None:
    now = [0.0]
    point, _ = lasting(Memory(), clock=lambda: now[0])
    dead = point.host_of(2)
    first = point.start_again([2], dead, "one")
    assert point.start_again([2], dead, "one") == first + 1, "a call that was under way is made again"
    with pytest.raises(BrokerUnavailable, match="is started again by another process"):
        point.start_again([2], dead, "two")
    point.give_up("one")
    point.start_again([2], dead, "two")
    now[0] = START_SECONDS  # the process has died meanwhile, or is slow
    last = point.start_again([2], dead, "three")
    with pytest.raises(BrokerUnavailable, match="is started again by another process"):
        point.reborn(2, Host([]), last - 1)
    assert point.host_of(2) is dead
    new = Host([])
    point.reborn(2, new, last)
    assert point.whereabouts(2) == (new, last)
    point.start_again([2], new, "four")  # the broker has died again


def test_it_goes_on_where_it_was() -> None:
    memory = Memory()
    point, _ = lasting(memory)
    point.place("subscriber", ["s"], 2, "ticket")
    point.place("publisher", ["p"], 5)
    point.leave("publisher", {"p": ""}, {"p": 17})
    point.relocate("subscriber", "s", 2, {2: point.host_of(2)}, [2])
    point.receive(4, [RootBeat(ClusterView(2, 3, 4, (4, 5)), 7)])
    again = Rendezvous(memory)
    assert again.directory() is not None
    assert again.sequences(["p", "q"]) == [17, 0]
    assert again.place("subscriber", ["s"], None, "ticket").brokers == [3], (
        "a call that was under way is made again"
    )
    with pytest.raises(ClientError, match="already a subscriber 's'"):
        again.place("subscriber", ["s"], None, "another")
    with pytest.raises(BrokerUnavailable, match="broker 2 is gone"):
        again.place("subscriber", ["t"], 2)
    again.receive(0, [AskRoot(ClusterView(0, 1, 0, (0, 1)))])
    told = again.host_of(0).told
    assert told == [(0, Root(ClusterView(2, 3, 4, (4, 5)), 7))]
    assert again.host_of(99) is None


@pytest.mark.parametrize(
    "scheme_name, members",
    [("hybrid", [(0, 1, 4), (2, 3)]), ("hierarchical", [(0,), (1,), (2,), (3,), (4,)])],
)
def test_who_comes_is_a_member_of_its_cluster_or_a_node_by_itself(
    scheme_name: str, members: list[tuple[int, ...]]
) -> None:
    positions = tuple(scheme(scheme_name).positions(ClusterTree(2, 2).positions()))
    hosts: dict[int, Any] = {position.broker: None for position in positions}
    point = Rendezvous()
    point.open(
        Directory("net", scheme_name, Limits.for_tests(), positions, hosts, None, Recovery.for_tests())
    )
    (new,), _ = point.identities(1, cluster=False)
    point.admit([newcomer(scheme_name, new, 0, (0, 1, new), 1)], {new: None})
    directory = point.directory()
    assert directory is not None
    assert sorted({directory.cluster_of(broker) for broker in range(5)}) == members
    assert [place.cluster for place in directory.positions] == [0, 0, 1, 1, 0]
    point.forget(new)
    directory = point.directory()
    assert directory is not None and [place.members for place in directory.positions] == [
        place.members for place in positions
    ]


def test_brokers_that_come_to_one_cluster_at_once_are_both_members_of_it(rendezvous: Rendezvous) -> None:
    """Each was created by a process that had not seen the other."""
    members = rendezvous.directory().cluster_of(0)  # type: ignore[union-attr]
    first, second = rendezvous.identities(2, cluster=False)[0]
    for new in (first, second):
        rendezvous.admit([newcomer("hybrid", new, 0, (*members, new), members[-1])], {new: f"actor {new}"})
    directory = rendezvous.directory()
    assert directory is not None
    assert {directory.cluster_of(each) for each in (*members, first, second)} == {(*members, first, second)}


def test_a_client_whose_broker_has_left_meanwhile_still_gets_another(rendezvous: Rendezvous) -> None:
    """It learns of the departure from the death of the actor, which the rendezvous point has forgotten."""
    assert rendezvous.place("publisher", ["a"], 3).brokers == [3]
    (new,), cluster = rendezvous.identities(1, cluster=True)
    assert (new, cluster) == (4, 2)
    place = Position(new, cluster, "D4", (new,), new, None, ())
    rendezvous.admit([place], {new: "its actor"})
    rendezvous.retire([3])
    assert rendezvous.clients_at([3]) == 1
    rendezvous.forget(3)
    directory = rendezvous.directory()
    assert directory is not None and [position.broker for position in directory.positions] == [0, 1, 2, 4]
    assert directory.cluster_of(2) == (2,) and directory.cluster_of(3) == ()
    assert rendezvous.relocate("publisher", "a", 3, {3: "the old actor"}, [0, 1, 2]) == (new, "its actor")
    assert rendezvous.clients_at([3]) == 0 and rendezvous.clients_at([new]) == 1
    assert rendezvous.identities(2, cluster=False) == ([5, 6], 2)
    with pytest.raises(BrokerUnavailable, match="broker 3 is gone"):
        rendezvous.place("publisher", ["b"], 3)


def test_an_id_is_given_out_once_also_when_the_highest_has_left(rendezvous: Rendezvous) -> None:
    """Otherwise a broker with a store would find what an earlier broker of that id has left."""
    rendezvous.forget(3)
    rendezvous.forget(2)
    assert rendezvous.identities(1, cluster=True) == ([4], 2)


def test_a_game_day_has_the_network_also_after_a_restart_of_the_rendezvous_point() -> None:
    now = 100.0
    memory = Memory()
    point, _ = lasting(memory, lambda: now)
    assert point.game_day("first", []) == "" and point.game_day("second", []) == "first"
    again = Rendezvous(memory, lambda: now)
    assert again.game_day("second", []) == "first" and again.game_day("first", []) == ""
    now += CLAIM_SECONDS
    assert again.game_day("second", []) == "", "it was killed meanwhile"
    assert again.game_day("second", [], ends=True) == "" and Rendezvous(memory).game_day("third", []) == ""


def test_the_actors_of_all_brokers_are_sent_only_if_they_have_changed() -> None:
    """Reference: docs/decisions/0211: who waits for a large network asks several times a second."""
    memory = Memory()
    point, _ = lasting(memory)
    found = point.hosts_since("")
    assert found is not None and found[1] == point.hosts()
    assert point.hosts_since(found[0]) is None
    point.reborn(2, new := Host([]), point.next_incarnation(2))
    changed = point.hosts_since(found[0])
    assert changed is not None and changed[1][2] is new and point.hosts_since(changed[0]) is None
    point.forget(1)
    left = point.hosts_since(changed[0])
    assert left is not None and 1 not in left[1]
    restarted = Rendezvous(memory).hosts_since(left[0])
    assert restarted is not None, "nobody knows what was missed"
