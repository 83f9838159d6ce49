"""A network in virtual time, as a chaos run breaks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Any, Final

from ...protocol.errors import ClientError
from ...protocol.ids import BrokerId, ClientId, EventId
from ...protocol.messages.pubsub import Lost
from ...protocol.traces.account import Account
from ...protocol.traces.trace import LossTold
from ...routing.topologies.cluster_trees import topology_of
from ...simulator.hosts import in_memory, in_memory_with_sums
from ...simulator.operations import SimulatedOperations
from ..chaos_run import CONVERGE_HEARTBEATS
from ..checker.groups import GroupRecord
from ..plans.cases import Action, Case, Operation, Rumour
from ..plans.damage_cases import is_damaged
from ..plans.group_cases import groups_of
from ..report import ChaosReport
from ..system import Bounds
from .judging import (
    BreakableSimulation,
    books_problems,
    clients_of,
    durable_problems,
    held_back,
    root_of,
    structure_problems,
    subscription_problems,
)
from .replaying import Replaying
from .timeline import Timeline

FLUSH_HEARTBEATS_MAX: Final = 120
"""A long chain replies late: every question that is repeated starts from the beginning."""

GROUP_STUCK_SECONDS: Final = 10.0
"""A calm group that has done nothing for so long does nothing any more."""


class OnSimulator:
    """A :class:`~rayvous.faults.system.System` in virtual time.

    Parameters
    ----------
    case
        What it is made for.
    options
        Passed to :class:`~rayvous.simulator.simulation.Simulation`.
    """

    def __init__(self, case: Case, **options: Any) -> None:
        self._case = case
        self.network = BreakableSimulation(
            topology_of(case.topology).positions(),
            case.scheme,
            recovery=case.recovery,
            store=(in_memory_with_sums if is_damaged(case) else in_memory) if case.stable else None,
            admission=case.admission,
            links=case.links,
            seed=case.seed,
            **{"strangers": True, **options},
        )
        if case.known is not None and "dead_after_seconds" not in options:
            self.network.faults.tell_of_deaths(case.known.after_seconds, case.known.share)
        self._replaying = Replaying(self.network, case)
        self._groups = groups_of(case)
        self.groups: dict[ClientId, GroupRecord] = {}
        self.timeline = Timeline(self.network)
        self._operations = SimulatedOperations(self.network, self._tell) if case.operations else None
        self._heartbeat = case.features.usual_times.heartbeat_seconds
        self._degree = case.features.times.degree if case.features.heals else None
        self._brokers = len(self.network.hosts)
        self.bounds = Bounds(
            CONVERGE_HEARTBEATS * self._heartbeat,
            f"{CONVERGE_HEARTBEATS} heartbeats",
            FLUSH_HEARTBEATS_MAX * self._heartbeat,
            forget=0.0,
        )

    def __enter__(self) -> OnSimulator:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave it as it is: nothing runs in virtual time unless it is driven."""

    @property
    def now(self) -> float:
        """The virtual time."""
        return self.network.now

    @property
    def account(self) -> Account:
        """What clients did and received so far."""
        return self.network.account

    # Time.

    def wait_until(self, when: float) -> None:
        """Let virtual time pass."""
        self.network.advance_to(when)

    settle = wait_until

    def carry_out(self, until: float, every_seconds: float) -> Iterator[None]:
        """Let virtual time pass up to the healing; return control at intervals."""
        network = self.network
        self._replaying.begin()
        for group in network.clients.groups.values():
            group.calm = False
        while network.now < until:
            network.advance_to(min(network.now + every_seconds, until))
            yield

    # Clients, and the network's operator.

    def play(self, actions: Sequence[Action], start: float) -> float:
        """Schedule actions of clients, counted from `start`; return the time of the last one."""
        moments = [max(self.network.now, start + action.at_seconds) for action in actions]
        for moment, action in zip(moments, actions, strict=True):
            self.network.at(moment, self._do, action)
        return max(moments, default=start)

    def await_clients(self) -> None:
        """Return at once: in virtual time a client never takes longer than it is told to."""

    def _do(self, action: Action) -> None:
        network, client = self.network, action.client
        session = network.sessions.get(client)
        if action.do == "stop":
            network.stop(client, forgets=action.forgets)
            return
        if action.do == "start":
            if network.sessions[client].alive is False and not network.start(client):
                network.at(network.now + self._heartbeat, self._do, action)
            return
        if session is not None and not session.alive:
            return  # a dead client does nothing
        staying = network.staying()
        if not staying:
            return  # all brokers are restarting: the client has no broker to talk to
        broker = action.broker if action.broker in staying else staying[0]
        if action.do == "subscribe":
            durable, priority = client in self._case.durable, self._case.priorities.get(client, 0)
            network.subscribe(client, broker, action.selector, action.number, priority, durable=durable)
            self._share(client)
        elif action.do == "publish":
            if session is None and (advert := self._case.adverts.get(client)) is not None:
                network.advertise(client, broker, advert.selector, advert.rate)
            network.publish(client, broker, action.events, ttl=action.ttl_seconds)
        elif action.do == "cancel":
            if session is not None and action.number in session.machine.subscriptions:
                network.unsubscribe(client, action.number)  # else it was dead when it was to subscribe
                if client in self.groups:
                    self.groups[client].wants(session.machine.record()["begins"])
        elif action.do == "move":
            if self._case.features.heals:
                network.move(client, broker)
        else:
            raise ClientError(f"{client} cannot {action.do!r}")

    def _share(self, client: ClientId) -> None:
        """Make a durable subscriber a group, if it is one and has only now come."""
        clients = self.network.clients
        if client in self._groups and client not in clients.groups:
            self.groups[client] = GroupRecord()
            rng = Random(f"chaos/groups/{self._case.seed}/{client}")
            clients.share(clients.by_name[client], self._groups[client], rng, self.groups[client])

    def held_back(self) -> Collection[ClientId]:
        """Return the publishers whose events wait for their quota, or are in flight to their broker."""
        return held_back(self.network)

    def flush(self, publishers: Collection[ClientId] | None) -> list[str]:
        """Let publishers wait until all that they published is delivered, all if None; return which wait in vain."""
        network = self.network
        asked = publishers
        if asked is None:
            sessions = network.sessions.items()
            asked = [name for name, one in sessions if one.homes and one.is_publisher and not one.left]
        for publisher in asked:
            network.flush(publisher, 1)
        deadline = network.now + self.bounds.flush
        while silent := set(asked) - {publisher for _, publisher, _ in network.flushed}:
            if network.now >= deadline:
                break
            network.advance(self._heartbeat)
        return [f"{publisher} was not told that all is delivered" for publisher in sorted(silent)]

    def release(self, publishers: Sequence[ClientId]) -> None:
        """Let publishers leave the network."""
        for publisher in publishers:
            self.network.detach(publisher)

    def revive(self) -> None:
        """Restart every dead client process that can return; a publisher whose brokers are gone for good moves."""
        network = self.network
        for group in network.clients.groups.values():
            group.calm = True
        for client in network.stopped():
            if not network.start(client) and network.homeless(client):
                network.start_elsewhere(client)
        network.clients.removed.update(network.dead())  # for good: the operator removes them

    def operate(self, operations: Sequence[Operation], start: float) -> None:
        """Schedule operations on the network, counted from `start`."""
        for operation in operations:
            self.network.at(start + operation.at_seconds, self._operate, operation)

    def _operate(self, operation: Operation) -> None:
        assert self._operations is not None
        done = self._operations.do(operation.do, operation.pick, operation.size)
        self._tell(f"{operation.do}: {done}")

    def _tell(self, what: str) -> None:
        self.timeline.say(self.network.now, f"operation: {what}")

    def spread(self, rumours: Sequence[Rumour], start: float) -> None:
        """Schedule wrong news of deaths, counted from `start`."""
        for rumour in rumours:
            self.network.at(start + rumour.at_seconds, self._spread, rumour)

    def _spread(self, rumour: Rumour) -> None:
        accused = self.network.faults.rumour(rumour.pick, rumour.share)
        self.timeline.say(self.network.now, f"wrong news: broker {accused} is said to be dead")

    # Questions.

    def root(self) -> BrokerId | None:
        """Return the living broker that says it is the root, of the latest term."""
        return root_of(self.network)

    @property
    def operating(self) -> bool:
        """Whether clusters are looking for nearer parents, each of which starts a round."""
        return self._operations is not None and self._operations.searching

    def unconfirmed(self, clients: Sequence[ClientId] | None = None) -> list[str]:
        """Return which subscriptions are not confirmed, of these clients once their brokers know what they want."""
        if clients is not None:
            self.network.advance(2 * self.network.links.client_seconds)
        waiting = self.network.unconfirmed()
        return [
            f"{client} #{number} is not confirmed"
            for client, number in waiting
            if clients is None or client in clients
        ]

    def look(self) -> list[str]:
        """Return what is wrong with the structure, for the timeline too."""
        problems = structure_problems(self.network, self._degree)
        self.timeline.sound.append((self.network.now, not problems))
        return problems

    def unfinished(self) -> list[str]:
        """Return which brokers have not left, what is wrong with subscriptions and routes, or else with the books."""
        left = [] if self._operations is None else self._operations.leaving()
        problems = [f"broker {broker} has not left" for broker in left]
        return problems or subscription_problems(self.network) or books_problems(self.network)

    def unforgotten(self) -> list[str]:
        """Return what brokers retain for durable subscribers without need, once their groups are done."""
        self._let_groups_finish()
        self._replaying.finish()
        return durable_problems(self.network)

    def _let_groups_finish(self) -> None:
        """Let workers do what is left, which may be much: they are slow, but some of it is done all the time."""
        network, groups = self.network, self.network.clients.groups.values()
        least, stuck_at = sum(map(len, groups)), network.now + GROUP_STUCK_SECONDS
        while least and network.now < stuck_at:
            network.advance(self._heartbeat)
            if (left := sum(map(len, groups))) < least:
                least, stuck_at = left, network.now + GROUP_STUCK_SECONDS

    # The end.

    def finish(self) -> None:
        """Run a network that does not heal until nothing is in flight."""
        if not self._case.features.heals:
            self.network.run()

    def trace(self) -> Account:
        """Return what clients did and received, with what is lost because a broker is dead for good."""
        network, trace = self.network, self.network.account
        if self._case.stable:
            left = set() if self._operations is None else self._operations.left  # and so lose nothing
            trace.dead_for_good(network.now, network.hosts.keys() - set(network.living()) - left)
        trace.settled(network.now)  # the full time for settling is over
        return trace

    @property
    def _lost_for_all(self) -> list[Lost]:
        """What nobody can have any more, and nobody is told of: it was only where a broker or publisher is for good."""
        operations, expired = self.network.account.operations, self._expired_by_now
        lost = [op for op in operations if isinstance(op, LossTold) and not op.client]
        events = [(op.publisher, op.sequence) for op in lost]
        return [Lost(*event, event[1]) for event in events if event not in expired]

    @property
    def _expired_by_now(self) -> dict[EventId, float]:
        expires = self.network.account.expires
        return {event: until for event, until in expires.items() if until < self.now}

    def count(self, report: ChaosReport) -> None:
        """Add the brokers, moves, messages and steps to a report, and what was admitted."""
        network = self.network
        for found in self._replaying.violations():
            report.problem(found)
        lost = self._lost_for_all
        for name, record in self.groups.items():
            most = network.clients.groups[name].config.deliveries_max
            told = network.account.losses.get(name, ())
            for found in record.violations(most, self._expired_by_now, [*told, *lost]):
                report.problem(f"group {name}: {found}")
        if network.features.admits:
            books = clients_of(network)
            report.admission = {
                "admitted": len(network.clients.admitted),
                "refused": network.clients.refused,
                "degraded": sum(len(books.told(name)) for name in books.wanted),
            }
        report.brokers = self._brokers
        report.moves = network.clients.moves
        report.messages = _by_name(network.sent)
        report.steps, report.virtual_seconds = network.steps, network.now


def _by_name(sent: Counter[type]) -> dict[str, int]:
    return {kind.__name__: count for kind, count in sorted(sent.items(), key=lambda entry: entry[0].__name__)}


__all__ = ["OnSimulator"]
