"""Operations on a running network: adding and removing brokers and clusters, and improving the tree.

Rules
-----
* The rendezvous point gives out identities, and never gives out one twice. It knows a broker before the broker
  sends anything.
* A new broker has an actor of its own.
* A broker that is to leave gets no new clients, and its clients go to other brokers, before it is told to leave. A
  client that does not go within twice `client_patience_seconds` is detached; it resumes at another broker when it
  notices, and misses nothing.
* Its durable subscribers go first, to its trustee: another broker of its cluster if there is one. That gets all that
  they have not acknowledged; a subscriber that is connected is asked to go there.
* What a leaving broker retains of publishers that are not there to take it along goes to the trustee, too, before it
  leaves. If the trustee dies or is to leave meanwhile, another is named.
* A broker that does not leave in time stays as it is, and the error says so; `kill_broker` is the remaining option.
* A broker that is temporarily unreachable, or does not answer in time, is asked again: everything that it is told
  is idempotent. Before it is told to leave, it has detached its clients, even if it was unreachable when the
  clients were sent away. A broker is gone only if Ray says that it has died; what only it held is lost.
* The clusters look for a nearer parent one after the other. Where membership is by views, there is no tree; a
  cluster is the brokers that joined together, and a new broker joins near them. Where every broker is a separate
  node of the tree, a cluster is likewise the brokers that joined together, and each finds a parent of its own.

The brokers' side of leaving is in `broker.membership.leaving` and `broker.membership.views`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import ray
from ray import ObjectRef
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError

from ...broker import newcomer
from ...protocol import checks
from ...protocol.configs import Position
from ...protocol.errors import BrokerUnavailable, InputError
from ...protocol.ids import BrokerId, ClusterId
from ...protocol.messages.handover import HandOver
from ...protocol.messages.recovery import RENDEZVOUS, LeaveNetwork, Reconsider
from ...protocol.queries import Said
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from .hosts import Hosts
from .launching import start_new

T = TypeVar("T")

LOOK_SECONDS = 0.05
ANSWER_SECONDS_MIN = 1.0
"""How long a leaving broker has to answer at least, even after the deadline for leaving."""
CLUSTER_BROKERS_MAX = 10_000
SEARCH_SECONDS_MAX = 20.0
"""How long one cluster may look for a nearer parent before the next cluster's turn."""


class Operations:
    """Operations that make a network grow, shrink and change its tree."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    # Growing.

    def add_broker(self, cluster: ClusterId) -> BrokerId:
        """Add a broker to a cluster; return its id once it runs. Its cluster knows it a heartbeat later.

        Raises
        ------
        InputError
            If the network does not heal, or cannot be operated, or there is no such cluster.
        """
        checks.whole_number("cluster", cluster)
        survey = self._operable()
        members = self._living(cluster, survey)
        speaks = next((broker for broker in members if survey[broker]["designated"]), members[-1])
        scheme = self._hosts.directory.scheme
        with broker_errors(f"adding a broker to cluster {cluster}"):
            (broker,), _ = ray.get(self._hosts.rendezvous.identities.remote(1, cluster=False), timeout=60)
            place = newcomer(scheme, broker, cluster, (*members, broker), speaks)
            incarnation = 0  # a separate node of the tree, which finds a parent
            if (
                scheme_of(scheme).membership is not Membership.NODES
            ):  # a normal broker (NEB), like a restarted one
                incarnation = ray.get(self._hosts.rendezvous.next_incarnation.remote(broker), timeout=60)
            self._start([place], incarnation)
            return int(broker)

    def add_cluster(self, brokers: int) -> tuple[ClusterId, list[BrokerId]]:
        """Add a cluster of so many brokers; return its id and theirs once they run.

        Raises
        ------
        InputError
            If the network does not heal, or cannot be operated, or `brokers` is out of range.
        """
        checks.whole_number("brokers", brokers, 1, CLUSTER_BROKERS_MAX)
        self._operable()
        with broker_errors("adding a cluster"):
            ids, cluster = ray.get(
                self._hosts.rendezvous.identities.remote(brokers, cluster=True), timeout=60
            )
            scheme, members = self._hosts.directory.scheme, tuple(ids)
            self._start([newcomer(scheme, each, cluster, members, ids[-1]) for each in ids], 0)
        return cluster, ids

    def _living(self, cluster: ClusterId, survey: Mapping[BrokerId, Any]) -> list[BrokerId]:
        """Return the living brokers of a cluster, in rising order."""
        clusters = {
            place.broker: place.cluster for place in self._hosts.directory.positions if place.broker in survey
        }
        members = sorted(broker for broker, its in clusters.items() if its == cluster)
        if not members:
            raise InputError(f"no cluster {cluster} is alive: there are {sorted(set(clusters.values()))}")
        return members

    def _start(self, places: list[Position], incarnation: int) -> None:
        start_new(self._hosts.directory, self._hosts.rendezvous, places, incarnation)
        self._hosts.find_reborn()

    # Shrinking.

    def remove_broker(self, broker: BrokerId | Sequence[BrokerId], timeout_seconds: float = 60.0) -> None:
        """Make a broker, or several one after the other, leave in good order; return when they are gone.

        A cluster leaves with its last broker. A broker that dies meanwhile is gone, too.

        Raises
        ------
        InputError
            If the network does not heal, there is no such broker, or it is the last one that is not leaving.
        BrokerUnavailable
            If one has not left in time; the message says what it waits for.
        """
        one = isinstance(broker, int | str) or not isinstance(broker, Iterable)
        leaving = [checks.whole_number("broker", broker)] if one else checks.whole_numbers("broker", broker)
        checks.seconds("timeout_seconds", timeout_seconds)
        survey = self._operable()
        for each in leaving:
            if each not in survey and not self._has_left(each):
                raise InputError(f"no broker {each} is alive: there are {sorted(survey)}")
        if survey.keys() <= set(leaving):
            raise InputError("the last broker of a network cannot leave it: close the network")
        deadline = time.monotonic() + timeout_seconds
        with broker_errors(f"removing brokers {leaving}"):
            let = self._hosts.rendezvous.let_leave.remote(leaving, tuple(survey))
            if not ray.get(let, timeout=60):
                raise InputError(
                    f"no broker would stay: all but {leaving} are leaving, too, or are just replaced: try again when "
                    "that is done, or add a broker"
                )
            for each in leaving:
                self._hand_over(each, deadline)
            self.send_clients_away(leaving)
            for each in leaving:
                self._lead_out(each, deadline)

    def remove_cluster(self, cluster: ClusterId, timeout_seconds: float = 60.0) -> None:
        """Make a whole cluster leave in good order, its designated broker last; as `remove_broker`."""
        checks.whole_number("cluster", cluster)
        checks.seconds("timeout_seconds", timeout_seconds)
        survey = self._operable()
        members = self._living(cluster, survey)
        leaving = sorted(members, key=lambda broker: survey[broker]["designated"])
        self.remove_broker(leaving, timeout_seconds)

    def _has_left(self, broker: BrokerId) -> bool:
        """Return whether a broker that is still known has left: its remover may have ended before it was forgotten."""
        host = self._hosts.directory.hosts.get(broker)
        try:
            return host is not None and bool(ray.get(HostHandle(host).left(broker), timeout=self._patience))
        except (RayActorError, GetTimeoutError):
            return False

    def _hand_over(self, broker: BrokerId, deadline: float) -> None:
        """Let a broker hand its durable subscribers over to another; name another one if that dies."""
        host = self._hosts.host_of(broker)
        trustee: BrokerId | None = None
        again_at = 0.0

        def done() -> bool:
            nonlocal trustee, again_at
            if not ray.get(HostHandle(host).holds(broker), timeout=self._patience):
                return True
            if time.monotonic() >= again_at:
                trustee = self._trustee_of(broker)
                if trustee is None:
                    return True
                said = HostHandle(host).tell(broker, RENDEZVOUS, [HandOver(trustee)])
                ray.get(said, timeout=self._patience)
                again_at = time.monotonic() + self._patience
            return False

        try:
            if not self._until(partial(_reached, done), deadline):
                raise BrokerUnavailable(
                    f"broker {broker} has not left in time: it waits for broker {trustee} to take over its durable "
                    "subscribers"
                )
        except ActorDiedError:
            return  # `_lead_out` finds it dead, too
        if trustee is not None:
            ray.get(self._hosts.rendezvous.handed_over.remote(broker, trustee), timeout=60)

    def _trustee_of(self, broker: BrokerId) -> BrokerId | None:
        """Return who takes over what a leaving broker retains; None if nobody is there."""
        living = tuple(self._hosts.survey())
        trustee: BrokerId | None = ray.get(
            self._hosts.rendezvous.trustee_of.remote(broker, living), timeout=self._patience
        )
        return trustee

    def send_clients_away(self, brokers: list[BrokerId]) -> None:
        """Make the clients of these brokers go to others, and accept none; detach those that have not gone in time."""
        ray.get(self._hosts.rendezvous.retire.remote(brokers), timeout=60)
        patience = self._patience
        self._tell(brokers, HostHandle.dismiss, patience)

        def gone() -> bool:
            attached = sum(self._tell(brokers, HostHandle.attached, patience))
            return not attached and not ray.get(self._hosts.rendezvous.clients_at.remote(brokers), timeout=60)

        self._until(gone, time.monotonic() + patience)
        self._tell(brokers, HostHandle.detach_all, patience)

    @property
    def _patience(self) -> float:
        """How many seconds clients have to go, and a host has to answer before it is asked again."""
        return 2 * self._hosts.features.times.client_patience_seconds

    def _tell(
        self, brokers: list[BrokerId], say: Callable[[HostHandle, BrokerId], ObjectRef[T]], seconds: float
    ) -> list[T]:
        """Return the answers of the hosts of these brokers that are reachable and answer in time."""
        answers = []
        deadline = time.monotonic() + seconds
        for broker, call in [(b, say(HostHandle(self._hosts.host_of(b)), b)) for b in brokers]:
            try:
                answers.append(ray.get(call, timeout=max(0.0, deadline - time.monotonic())))
            except ActorDiedError:
                self._hosts.dead.add(self._hosts.host_of(broker))
            except (RayActorError, GetTimeoutError):
                continue  # unreachable: told again in `_lead_out`
        return answers

    def _lead_out(self, broker: BrokerId, deadline: float) -> None:
        host = self._hosts.host_of(broker)
        rest: list[int] = []  # after it has left: the number of brokers still on the host
        trustee: BrokerId | None = None
        again_at = 0.0

        def answer(call: Any) -> Any:
            left = max(ANSWER_SECONDS_MIN, deadline - time.monotonic())
            return ray.get(call, timeout=min(left, self._patience))

        def told() -> bool:
            nonlocal trustee, again_at
            answer(HostHandle(host).dismiss(broker))
            answer(HostHandle(host).detach_all(broker))
            trustee = self._trustee_of(broker)
            answer(HostHandle(host).tell(broker, RENDEZVOUS, [LeaveNetwork(trustee)]))
            again_at = time.monotonic() + self._patience
            return True

        def ended() -> bool:
            if answer(HostHandle(host).left(broker)):
                rest.append(answer(HostHandle(host).end_broker(broker)))
            elif time.monotonic() > again_at:
                told()
            return bool(rest)

        try:
            if not all(self._until(partial(_reached, step), deadline) for step in (told, ended)):
                one = self._hosts.survey().get(broker, {})
                raise BrokerUnavailable(
                    f"broker {broker} has not left in time: it waits {_waits(one)}; its trustee is {trustee}"
                )
        except ActorDiedError:
            rest, trustee = [0], None  # it has died meanwhile, so it is gone
        ray.get(self._hosts.rendezvous.forget.remote(broker, trustee), timeout=60)
        self._hosts.find_reborn()
        if not rest[0]:
            ray.kill(host, no_restart=True)

    def _until(self, happened: Callable[[], bool], deadline: float) -> bool:
        """Poll until something has happened; return False if it has not by the deadline."""
        while not happened():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    # Nearer parents.

    def reoptimise(self) -> list[tuple[ClusterId, ClusterId, ClusterId]]:
        """Make the clusters look for a clearly nearer parent, one after the other.

        Returns
        -------
        list of tuple
            (cluster, former parent, new parent) of each cluster that has moved.

        Raises
        ------
        InputError
            If the network does not heal, or has no tree.
        """
        moved = []
        survey = self._operable()
        if self._views:
            raise InputError(
                f"scheme {self._hosts.directory.scheme!r} has no tree to reoptimise: no broker is below another"
            )
        for broker, one in sorted(survey.items()):
            if one["designated"] and one["parent"] is not None:
                host = self._hosts.host_of(broker)
                with broker_errors(f"asking broker {broker} for a nearer parent"):
                    ray.get(HostHandle(host).tell(broker, RENDEZVOUS, [Reconsider()]), timeout=60)
                self._until(
                    lambda here=broker: not self._stand(here).get("searching"),  # type: ignore[misc]
                    time.monotonic() + SEARCH_SECONDS_MAX,
                )
                parent = self._stand(broker).get("parent")
                if parent is not None and parent.cluster != one["parent"].cluster:
                    moved.append((one["cluster"], one["parent"].cluster, parent.cluster))
        return moved

    def _stand(self, broker: BrokerId) -> Said:
        return self._hosts.survey().get(broker, {})

    @property
    def _views(self) -> bool:
        return scheme_of(self._hosts.directory.scheme).membership is Membership.VIEWS

    def _operable(self) -> dict[BrokerId, Said]:
        """Return the survey of a network that can be operated; raise InputError for any other network."""
        return self._hosts.survey()


def _reached(step: Callable[[], bool]) -> bool:
    """Return whether a step is done; it counts as not done while the host is unreachable or stalled."""
    try:
        return step()
    except ActorDiedError:
        raise
    except (RayActorError, GetTimeoutError):
        return False


def _waits(one: Said) -> str:
    """Return what a leaving broker waits for, according to its survey entry."""
    if not one:
        return "to be reached"
    if "view_members" in one:
        return "for a view without it"
    if one.get("children"):
        return f"for clusters {[child.cluster for child in one['children']]} to join elsewhere"
    return "for another to take over" if one.get("designated") else "for a heartbeat of its cluster"
