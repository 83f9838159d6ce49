"""A network continues from what an earlier one has left: what is kept, what is not, and what is refused."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network import launching, resume_from_store
from rayvous.actors.network.directory import Directory
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.actors.network.store import CLIENTS, DIRECTORY, LastingStore
from rayvous.protocol.configs import Limits, Position
from rayvous.protocol.effects import Write
from rayvous.protocol.errors import ClientError, InputError, StorageFailed
from rayvous.protocol.features import Features
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.recovery import RENDEZVOUS, AskRoot, ClusterView, Recovery, Root, RootBeat
from rayvous.recovery.durability.sqlite_store import SqliteStore
from rayvous.recovery.durability.stable import Stable
from rayvous.routing.schemes.registry import scheme as scheme_of
from rayvous.routing.topologies.cluster_trees import ClusterTree

RECOVERY = Recovery.for_tests()
MADE_OF = resume_from_store.made_of("hybrid", Features(RECOVERY, True))


class InRay:
    """A fake of Ray's key-value store: values by name, separate for each network."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        self.values[name] = value

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def write(self, stored: dict[str, Any], copied: dict[str, Any]) -> None:
        self.values |= stored

    def items(self) -> Any:
        return iter(list(self.values.items()))


class Told(Actor):
    """A fake actor of a broker, with what it has received."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        super().__init__(BrokerHost, receive=lambda to, source, messages: self.said.extend(messages))


class Story:
    """Successive launches of a network at one address: the rendezvous point of each."""

    def __init__(self, address: str | Path) -> None:
        self.stable = Stable(address)
        self.now = 1_000.0
        self.networks = 0
        self.in_ray: InRay
        self.store: LastingStore
        self.point: Rendezvous

    def started(self, token: str | None = None) -> Rendezvous:
        """Start a rendezvous point, of a new network unless a token is given; end the former one."""
        if token is None:
            self.networks += 1
            self.in_ray = InRay(f"network {self.networks}")
        if self.networks > 1 or token is not None:
            self.ended()
        self.store = LastingStore(self.in_ray, self.stable)  # type: ignore[arg-type]
        self.point = Rendezvous(self.store, lambda: self.now)
        return self.point

    def ended(self) -> None:
        self.store.close()

    def open(self, earlier: resume_from_store.Earlier | None = None, **accepted: int) -> dict[int, Told]:
        positions = tuple(ClusterTree(3, 2).positions()) if earlier is None else earlier.positions
        hosts = {place.broker: Told() for place in positions}
        directory = Directory(
            "net", "hybrid", Limits.for_tests(), positions, hosts, None, RECOVERY, seal=self.in_ray.token
        )
        if earlier is not None:
            launches, still, seal = earlier.launches, earlier.still_seconds, earlier.seal
            directory = replace(directory, launches=launches, still_seconds=still, seal=seal)
        self.point.open(directory, earlier, accepted)
        return hosts

    def launched_again(self) -> resume_from_store.Earlier:
        earlier = self.started().earlier(MADE_OF)
        assert earlier is not None
        return earlier

    def copied(self) -> dict[str, Any]:
        """Return what the copy contains, after its process has ended."""
        self.ended()
        store = SqliteStore(self.stable.backend().file_of(RENDEZVOUS))
        try:
            return {str(key[0]): value for key, value in store.rows("rendezvous")}
        finally:
            store.close()


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path)
    assert story.started().earlier(MADE_OF) is None, "nobody was here"
    story.open()
    return story


def test_names_numbers_and_identities_count_on_and_nobody_is_attached(story: Story) -> None:
    point = story.point
    record = point.reattach("alice", 2, "ticket")[1]
    point.acknowledge("alice", record["life"], {"bob": 7})
    point.reattach_publisher("carol", 4, "ticket")
    reserved = point.reserve("carol", 1)
    point.place("publisher", ["bob", "dave"], 0)
    point.place("publisher", ["erin"], 0)
    point.leave("publisher", {"erin": ""}, {"erin": 3})
    (new,), cluster = point.identities(1, cluster=True)
    point.admit([Position(new, cluster, "D6", (new,), new, None, ())], {new: Told()})
    point.forget(1)
    assert point.next_incarnation(3) == 1

    earlier = story.launched_again()
    assert [place.broker for place in earlier.positions] == [0, 2, 3, 4, 5, new], "not as it was launched"
    assert earlier.incarnation == 2 and earlier.launches == 2
    story.open(earlier, bob=41, erin=2, carol=7)
    again = story.point
    assert again.sequences(["bob", "dave", "erin", "carol"]) == [41, 0, 3, 7]
    broker, record, _ = again.reattach("alice", None, "another")
    assert broker == 2 and record["position"] == {"bob": 7} and record["life"] == 2
    assert again.reattach_publisher("carol", None, "another")[2] == reserved
    again.place("publisher", ["dave"], 0)
    with pytest.raises(ClientError, match="already a publisher 'dave'"):
        again.place("publisher", ["dave"], 0)
    assert again.identities(1, cluster=True) == ([new + 1], cluster + 1)
    assert again.next_incarnation(5) == 3 and again.whereabouts(5) == (again.host_of(5), 2)


@pytest.mark.slow
def test_it_is_so_in_a_database(postgresql: Any) -> None:
    story = Story(postgresql.address())
    assert story.started().earlier(MADE_OF) is None
    story.open()
    test_names_numbers_and_identities_count_on_and_nobody_is_attached(story)
    story.ended()


def test_it_is_so_in_a_backend_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "examples"))
    story = Story("own_store:Memory://taken-up")
    assert story.started().earlier(MADE_OF) is None
    story.open()
    test_names_numbers_and_identities_count_on_and_nobody_is_attached(story)
    story.ended()


def test_the_last_root_counts_on(story: Story) -> None:
    story.point.receive(4, [RootBeat(ClusterView(2, 3, 4, (4, 5)), 7)])
    hosts = story.open(story.launched_again())
    story.point.receive(0, [AskRoot(ClusterView(0, 1, 0, (0, 1)))])
    assert hosts[0].said == [Root(ClusterView(2, 3, 4, (4, 5)), 7)]


def test_the_clock_stands_still_from_the_last_moment_at_which_it_may_have_lived(story: Story) -> None:
    record = story.point.reattach("alice", 2, "ticket")[1]
    story.point.subscriptions("alice", record["life"], {"subscriptions": {}, "since": 900.0})
    seen = story.in_ray.values["subscriber:alice"]["seen"]
    for _ in range(200):
        story.now += 0.1
        story.point.receive(0, [RootBeat(ClusterView(0, 1, 0, (0, 1)), 1)])
    story.now += 1_000.0
    earlier = story.launched_again()
    most = 2 * resume_from_store.note_seconds(RECOVERY) + 2 * RECOVERY.heartbeat_seconds
    assert 1_000.0 - most <= earlier.still_seconds <= 1_000.0
    story.open(earlier)
    assert 1_020.0 <= story.point._now() <= 1_020.0 + most
    alice = story.in_ray.values["subscriber:alice"]
    assert alice["seen"] == seen + earlier.still_seconds and alice["since"] == 900.0 + earlier.still_seconds
    story.now += 500.0
    assert story.launched_again().still_seconds - earlier.still_seconds == pytest.approx(500.0, abs=most)


def test_a_short_retention_is_noted_more_often() -> None:
    assert resume_from_store.note_seconds(Recovery.for_tests(retention_seconds=10.0)) == 1.0


def test_a_launch_that_fails_leaves_all_for_the_next(story: Story) -> None:
    story.point.leave("publisher", {}, {"erin": 3})
    record = story.point.reattach("alice", 2, "ticket")[1]
    story.point.acknowledge("alice", record["life"], {"bob": 7})
    before = story.copied()
    first = story.launched_again()
    assert story.copied() == before
    story.started("in the same launch")  # its rendezvous point has died, and Ray restarts it
    second = story.launched_again()
    assert first == replace(second, still_seconds=first.still_seconds)
    story.open(second)
    assert story.point.sequences(["erin"]) == [3] and story.point.names.subscriber("alice")["position"] == {
        "bob": 7
    }


def test_a_rendezvous_point_that_dies_as_it_opens_does_so_again(story: Story) -> None:
    story.point.leave("publisher", {}, {"erin": 3})
    earlier = story.launched_again()
    story.open(earlier)
    for gone in ([], [DIRECTORY], [DIRECTORY, CLIENTS]):  # what it had not stored when it died
        for name in gone:
            story.in_ray.values.pop(name)
        story.started("in the same launch")
        story.open(earlier)
    assert story.point.sequences(["erin"]) == [3]
    assert story.point.next_incarnation(0) == earlier.incarnation + 1
    assert story.launched_again().launches == 3


def test_what_stores_depend_on_must_be_as_it_was(story: Story) -> None:
    """Stores are snapshots of the layers of brokers, with checksums where brokers compare what they know."""
    compares = replace(RECOVERY, compare_heartbeats=10)
    for made_of, said in (
        (resume_from_store.made_of("lbdd", Features(RECOVERY, True)), "scheme='hybrid'"),
        (resume_from_store.made_of("hybrid", Features(RECOVERY, True, AdmissionConfig())), "admission=False"),
        (resume_from_store.made_of("hybrid", Features(compares, True)), "compare_heartbeats=False"),
    ):
        with pytest.raises(
            InputError, match=f"the stores belong to a network with {said}.*launch it as it was"
        ):
            story.started().earlier(made_of)
    assert story.launched_again().incarnation == 1


@pytest.mark.parametrize("name", ["hybrid", "hierarchical", "hypercube", "lbdd", "point-to-point"])
@pytest.mark.parametrize("gone", [[1], [3], [5], [4, 5], [0, 1]])
def test_places_may_name_brokers_that_have_left(name: str, gone: list[int]) -> None:
    """Places name the neighbours at launch; those that have left since have no actor."""
    positions = tuple(scheme_of(name).positions(ClusterTree(3, 2).positions()))
    hosts: dict[int, Any] = {place.broker: Told() for place in positions}
    point = Rendezvous()
    point.open(Directory("net", name, Limits.for_tests(), positions, hosts, None, RECOVERY))
    for broker in gone:
        point.forget(broker)
    directory = point.directory()
    assert directory is not None
    met: list[set[int]] = []
    host = SimpleNamespace(connect=SimpleNamespace(remote=lambda known, _: met.append(set(known))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching.ray, "get", lambda calls: calls)
        launching.connect(directory, [(host, [place]) for place in directory.positions], None)
    assert len(met) == 6 - len(gone) and not any(known & set(gone) for known in met)


def test_ids_of_gateways_stay_good(story: Story) -> None:
    first = story.point.directory()
    story.open(story.launched_again())
    second = story.point.directory()
    assert first is not None and second is not None and first.seal == second.seal == "network 1"


def test_a_network_that_runs_is_not_taken_over(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayvous.actors.host.broker_store.OPEN_SECONDS", 0.05)
    other = LastingStore(InRay("other"), story.stable)  # type: ignore[arg-type]
    with pytest.raises(StorageFailed, match=r"rendezvous\.sqlite: another process has it open"):
        other.earlier()
    story.point.place("publisher", ["p"], 0)


def test_a_rendezvous_point_that_is_started_again_goes_on_from_ray_and_writes_on(story: Story) -> None:
    story.point.leave("publisher", {}, {"erin": 3})
    again = story.started("the same")
    assert again.sequences(["erin"]) == [3] and again.directory() is not None
    again.leave("publisher", {}, {"frank": 4})
    story.open(story.launched_again())
    assert story.point.sequences(["erin", "frank"]) == [3, 4]


def test_started_again_where_the_folder_is_of_another_network_it_writes_all_anew(story: Story) -> None:
    """This happens on another node that once had the rendezvous point of an earlier network."""
    story.point.leave("publisher", {}, {"erin": 3})
    story.point.reserve("carol", 5)
    story.point.receive(4, [RootBeat(ClusterView(2, 3, 4, (4, 5)), 7)])
    before = story.copied()
    store = SqliteStore(story.stable.backend().file_of(RENDEZVOUS))
    store.commit([Write("rendezvous", (name,), None) for name in before])
    store.commit([Write("rendezvous", ("publisher:gone",), ([1], 2))])
    store.close()
    story.started("the same").leave("publisher", {}, {"erin": 3})
    after = story.copied()
    assert after.keys() == before.keys() and "publisher:gone" not in after
    assert {name for name in before if before[name] != after[name]} <= {"alive until"}


class Full:
    """A copy on a full disk."""

    def commit(self, writes: Any) -> None:
        raise StorageFailed("disk is full")

    def close(self) -> None: ...


def test_what_could_not_be_written_is_said_and_written_with_what_comes_next(story: Story) -> None:
    copy, story.store._copy = story.store._copy, Full()  # type: ignore[assignment]
    with pytest.raises(StorageFailed, match="disk is full"):
        story.point.leave("publisher", {}, {"erin": 3})
    story.store._copy = copy
    story.point.reserve("carol", 5)
    story.open(story.launched_again())
    assert story.point.sequences(["erin"]) == [3] and story.point.reserve("carol", 5) == 1_000_005


def test_the_root_is_told_though_the_copy_cannot_be_written(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    story.store._copy = Full()  # type: ignore[assignment]
    story.now += 100.0
    story.point.receive(4, [AskRoot(ClusterView(2, 1, 4, (4, 5)))])
    assert story.store._writer is not None
    story.store._writer.shutdown()
    told = story.point.host_of(4).said
    assert told and "not up to date: disk is full" in caplog.text


def test_the_brokers_are_asked_for_the_numbers_that_nobody_else_knows() -> None:
    def host(**known: int) -> Any:
        return Actor(BrokerHost, accepted_here=known)

    with pytest.MonkeyPatch.context() as patch:
        Ray(patch, resume_from_store)
        assert resume_from_store.accepted([host(bob=3), host(bob=9, dave=1), host()]) == {"bob": 9, "dave": 1}
