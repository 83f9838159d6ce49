"""A network goes on from what an earlier one has left: what counts on, what does not, and what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network import taking_up
from rayvous.actors.network.directory import Directory
from rayvous.actors.network.rendezvous import ALIVE_SECONDS, Rendezvous
from rayvous.actors.network.store import DIRECTORY, LastingStore
from rayvous.faults.durability.sqlite_store import SqliteStore
from rayvous.protocol.configs import Limits, Position
from rayvous.protocol.errors import ClientError, InputError, StorageFailed
from rayvous.protocol.messages.recovery import RENDEZVOUS, AskRoot, ClusterView, Recovery, Root, RootBeat
from rayvous.protocol.stability import Stable
from rayvous.routing.topologies.cluster_trees import ClusterTree

RECOVERY = Recovery.for_tests()


class InRay:
    """Stands for Ray's key-value store: the values of one network by name, which another one does not find."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        self.values[name] = value

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def items(self) -> Any:
        return iter(list(self.values.items()))


class Told:
    """Stands for the actor of a broker."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.receive = SimpleNamespace(remote=lambda to, source, messages: self.said.extend(messages))


class Story:
    """The rendezvous points of one network after the other, in one place."""

    def __init__(self, address: str | Path) -> None:
        self.stable = Stable(address)
        self.now = 1_000.0
        self.networks = 0
        self.in_ray: InRay
        self.store: LastingStore
        self.point: Rendezvous

    def started(self, token: str | None = None) -> Rendezvous:
        """Start a rendezvous point, of a new network unless it is told which; the process of the former has ended."""
        if token is None:
            self.networks += 1
            self.in_ray = InRay(f"network {self.networks}")
        if self.networks > 1 or token is not None:
            self.ended()
        self.store = LastingStore(self.in_ray, self.stable)  # type: ignore[arg-type]
        self.point = Rendezvous(self.store, lambda: self.now)
        return self.point

    def ended(self) -> None:
        if self.store._copy is not None:
            self.store._copy.close()
        if self.store._stores._in_database is not None:
            self.store._stores._in_database.close()

    def open(self, earlier: taking_up.Earlier | None = None, **accepted: int) -> dict[int, Told]:
        positions = tuple(ClusterTree(3, 2).positions()) if earlier is None else earlier.positions
        hosts = {place.broker: Told() for place in positions}
        more = (
            {} if earlier is None else {"launches": earlier.launches, "still_seconds": earlier.still_seconds}
        )
        limits = Limits.for_tests()
        self.point.open(
            Directory("net", "hybrid", limits, positions, hosts, None, RECOVERY, **more), accepted
        )
        return hosts

    def launched_again(self) -> taking_up.Earlier:
        earlier = self.started().take_up("hybrid", False)
        assert earlier is not None
        return earlier


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path)
    assert story.started().take_up("hybrid", False) is None, "nobody was here"
    story.open()
    return story


def test_names_numbers_and_identities_count_on_and_nobody_is_attached(story: Story) -> None:
    point = story.point
    _, record = point.come_back("alice", 2, "ticket")
    point.acknowledge("alice", record["life"], {"bob": 7})
    point.publisher_comes_back("carol", 4, "ticket")
    reserved = point.reserve("carol", 1)
    point.place("publisher", ["bob", "dave"], 0)
    point.place("publisher", ["erin"], 0)
    point.leave("publisher", ["erin"], {"erin": 3})
    (new,), cluster = point.identities(1, cluster=True)
    point.admit([Position(new, cluster, "D6", (new,), new, None, ())], {new: Told()})
    point.forget(1)
    assert point.next_life(3) == 1

    earlier = story.launched_again()
    assert [place.broker for place in earlier.positions] == [0, 2, 3, 4, 5, new], "not as it was launched"
    assert earlier.life == 2 and earlier.launches == 2 and earlier.publishers == ("bob", "dave")
    story.open(earlier, bob=41)
    again = story.point
    assert again.sequences(["bob", "dave", "erin"]) == [41, 0, 3]
    broker, record = again.come_back("alice", None, "another")
    assert broker == 2 and record["position"] == {"bob": 7} and record["life"] == 2
    assert again.publisher_comes_back("carol", None, "another")[2] == reserved
    again.place("publisher", ["dave"], 0)
    with pytest.raises(ClientError, match="already a publisher 'dave'"):
        again.place("publisher", ["dave"], 0)
    assert again.identities(1, cluster=True) == ([new + 1], cluster + 1)
    assert again.next_life(5) == 3 and again.whereabouts(5) == (again.host_of(5), 2)


@pytest.mark.slow
def test_it_is_so_in_a_database(postgresql: Any) -> None:
    story = Story(postgresql.address())
    assert story.started().take_up("hybrid", False) is None
    story.open()
    test_names_numbers_and_identities_count_on_and_nobody_is_attached(story)
    story.ended()


def test_the_last_root_counts_on(story: Story) -> None:
    story.point.receive(4, [RootBeat(ClusterView(2, 3, 4, (4, 5)), 7)])
    hosts = story.open(story.launched_again())
    story.point.receive(0, [AskRoot(ClusterView(0, 1, 0, (0, 1)))])
    assert hosts[0].said == [Root(ClusterView(2, 3, 4, (4, 5)), 7)]


def test_the_clock_stands_still_from_the_last_moment_at_which_it_may_have_lived(story: Story) -> None:
    _, record = story.point.come_back("alice", 2, "ticket")
    story.point.acknowledge("alice", record["life"], {})
    seen = story.in_ray.values["subscriber:alice"]["seen"]
    for _ in range(20):
        story.now += 1.0
        story.point.receive(0, [RootBeat(ClusterView(0, 1, 0, (0, 1)), 1)])
    story.now += 1_000.0
    earlier = story.launched_again()
    most = ALIVE_SECONDS + RECOVERY.suspect_after_seconds
    assert 1_000.0 - most <= earlier.still_seconds <= 1_000.0
    assert story.in_ray.values["subscriber:alice"]["seen"] == seen + earlier.still_seconds, (
        "it was not away so long"
    )
    story.open(earlier)
    assert 1_020.0 <= story.point._now() <= 1_020.0 + most
    story.now += 500.0
    assert story.launched_again().still_seconds - earlier.still_seconds == pytest.approx(500.0, abs=most)


def test_a_launch_that_fails_leaves_all_for_the_next(story: Story) -> None:
    story.point.leave("publisher", [], {"erin": 3})
    first, second = story.launched_again(), story.launched_again()
    assert first.positions == second.positions and second.life > first.life, (
        "brokers may have begun the first"
    )
    story.open(second)
    assert story.point.sequences(["erin"]) == [3]


def test_another_scheme_is_refused(story: Story) -> None:
    for scheme, admission, said in (("lbdd", False, "scheme='hybrid'"), ("hybrid", True, "admission=False")):
        with pytest.raises(InputError, match=f"the stores are of a network with {said}.*launch it as it was"):
            story.started().take_up(scheme, admission)
    assert story.launched_again().life == 1


def test_a_network_that_runs_is_not_taken_over(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayvous.actors.host.broker_store.OPEN_SECONDS", 0.05)
    other = LastingStore(InRay("other"), story.stable)  # type: ignore[arg-type]
    with pytest.raises(StorageFailed, match=r"rendezvous\.sqlite: another process has it open"):
        other.earlier()
    story.point.place("publisher", ["p"], 0)


def test_a_rendezvous_point_that_is_started_again_goes_on_from_ray_and_writes_on(story: Story) -> None:
    story.point.leave("publisher", [], {"erin": 3})
    again = story.started("the same")
    assert again.sequences(["erin"]) == [3] and again.directory() is not None
    again.leave("publisher", [], {"frank": 4})
    story.open(story.launched_again())
    assert story.point.sequences(["erin", "frank"]) == [3, 4]


def test_started_again_where_the_folder_is_of_another_network_it_writes_all_anew(story: Story) -> None:
    """On another node, where the rendezvous point of an earlier network was."""
    story.point.leave("publisher", [], {"erin": 3})
    story.ended()
    store = SqliteStore(story.stable.file_of(RENDEZVOUS))
    store.commit([("rendezvous", ("token",), "of another"), ("rendezvous", ("publisher:gone",), ([1], 2))])  # type: ignore[list-item]
    store.close()
    again = story.started("the same")
    again.leave("publisher", [], {"frank": 4})
    story.ended()
    store = SqliteStore(story.stable.file_of(RENDEZVOUS))
    found = {key[0]: value for key, value in store.rows("rendezvous")}
    store.close()
    assert found.pop("token") == story.in_ray.token
    assert found == {name: value for name, value in story.in_ray.values.items() if name != DIRECTORY}


def test_what_could_not_be_written_is_said_and_written_with_what_comes_next(story: Story) -> None:
    copy = story.store._copy
    assert copy is not None

    class Full:
        def commit(self, writes: Any) -> None:
            raise StorageFailed("disk is full")

    story.store._copy = Full()  # type: ignore[assignment]
    with pytest.raises(StorageFailed, match="disk is full"):
        story.point.leave("publisher", [], {"erin": 3})
    story.store._copy = copy
    story.point.reserve("carol", 5)
    earlier = story.launched_again()
    story.open(earlier)
    assert story.point.sequences(["erin"]) == [3] and story.point.reserve("carol", 5) == 1_000_005


def test_the_brokers_are_asked_for_the_numbers_that_nobody_else_knows() -> None:
    def host(**known: int) -> Any:
        return SimpleNamespace(accepted_here=SimpleNamespace(remote=lambda name: known.get(name, 0)))

    earlier = taking_up.Earlier((), 1, 2, 0.0, ("bob", "dave"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taking_up.ray, "get", lambda calls: calls)
        assert taking_up.accepted(earlier, [host(bob=3), host(bob=9, dave=1)]) == {"bob": 9, "dave": 1}
        assert taking_up.accepted(None, [host(bob=3)]) == {}
