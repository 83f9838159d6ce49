"""What a simulated network is at one moment, as plain values: brokers, their tables, clients, and what is under way.

Rules
-----
* Everything is asked of the brokers and clients themselves; nothing is derived from what happened before.
* Of a large network some is shown, and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...actors.pictures.dead import with_dead
from ...actors.pictures.graph import graph_of_places
from ...actors.pictures.layout import circle_layout, layout_of, ring_width
from ...protocol.configs import Position
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.beats import is_beat
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.printable import printable
from ...protocol.queries import Said
from ...recovery.membership.structure import current_position
from ...routing.filters.filter import Filter
from ...simulator.hosts import Host
from ...simulator.pending import held, under_way
from ...simulator.sessions import ClientSession
from ...simulator.simulation import Simulation
from ...simulator.survey import survey, survey_of
from .frames import BrokerThen, ClientThen, Flight, Frame, TableThen, Texts, brokers_in
from .words import cut, detail_of, name_of

BROKERS_MAX: Final = 150
CLIENTS_MAX: Final = 120
ENTRIES_MAX: Final = 40
SUBSCRIPTIONS_MAX: Final = 12
MARKS_MAX: Final = 6
UNDER_WAY_MAX: Final = 400
WIDTH: Final = 100.0
APART: Final = 37.0
"""How wide a cluster is drawn at least, and how far apart its members are, in the units of the page."""
WAITS: Final = ", waits"
"""What a broker says besides while it is not in its place yet."""


class Capture:
    """Looks at one network.

    Parameters
    ----------
    network
        The network.
    texts
        Where texts get their numbers.

    Raises
    ------
    InputError
        If it has so many brokers that nobody would see anything.
    """

    def __init__(self, network: Simulation, texts: Texts) -> None:
        if len(network.hosts) > BROKERS_MAX:
            raise InputError(f"there are {len(network.hosts)} brokers: a player shows at most {BROKERS_MAX}")
        self._network, self._texts = network, texts
        self._in_views = any(place.view is not None for place in network.positions.values())
        self._filters: dict[Filter, int] = {}
        self._flights: dict[int, Flight] = {}
        self._others: set[int] = set()
        self._shape: list[object] = []
        self._places: Frame = {}

    def frame(self) -> Frame:
        """Return the whole network."""
        network = self._network
        found: Frame = {}
        for broker in network.hosts:
            found.update(self.broker(broker))
        if network.rendezvous is not None:
            found.update(self.broker(RENDEZVOUS))
        found.update(self.places(found))
        found.update(self.clients())
        found.update(self.flights())
        found.update(self.links())
        return found

    # Brokers.

    def broker(self, broker: BrokerId) -> Frame:
        """Return the state of one broker, its table, and the sizes of its state."""
        network, host = self._network, self._network.host(broker)
        if broker == RENDEZVOUS:
            nowhere = None, (), "", host.incarnation, len(host.waiting)
            return {f"b{broker}": BrokerThen(_state(host), "RP", "point", -1, *nowhere)}
        place = network.positions[broker]
        if not host.alive:
            nowhere = None, (), "", host.incarnation, 0
            dead = BrokerThen(_state(host), str(broker), "", place.cluster, *nowhere)
            return {f"b{broker}": dead, f"t{broker}": TableThen(0, ()), f"s{broker}": ()}
        said = survey(network, broker)
        if network.heals:
            place = current_position(place, {broker: said})
        role, above, below = _role(place, said)
        words, waiting = _says(said), len(host.waiting)
        then = BrokerThen(
            _state(host), str(broker), role, place.cluster, above, below, words, host.incarnation, waiting
        )
        sizes = network.broker(broker).describe()
        shown = tuple((self._texts.number(name), size) for name, size in sizes.items() if size)
        return {f"b{broker}": then, f"t{broker}": self._table(broker), f"s{broker}": shown}

    def _table(self, broker: BrokerId) -> TableThen:
        """Return how many entries the table has, and the first ones: a filter, and the link over which it is wanted."""
        found = dict.fromkeys((item, link) for item, link, _ in self._network.broker(broker).router.held())
        entries = tuple((self._filter(item), link) for item, link in list(found)[:ENTRIES_MAX])
        return TableThen(len(found), entries)

    def _filter(self, item: Filter) -> int:
        number = self._filters.get(item)
        if number is None:
            number = self._filters[item] = self._texts.number(cut(str(item), 120))
        return number

    def places(self, frame: Mapping[str, object]) -> Frame:
        """Return where each broker is drawn, in the units of the page; `frame` has their states."""
        shape: list[object] = [
            (broker, then.alive, then.role, then.cluster, then.above, then.below)
            for broker, then in brokers_in(frame)
        ]
        if shape != self._shape:
            self._shape, self._places = shape, self._laid_out()
        return self._places

    def _laid_out(self) -> Frame:
        network, places = self._network, self._current()
        graph = graph_of_places("", network.scheme, places)
        for place in places:  # who asks to be below another broker is drawn there
            if place.role == "DEB" and place.parent in graph:
                graph.add_edge(place.broker, place.parent, kind="tree")
        draw = circle_layout if self._in_views else layout_of
        layout = draw(with_dead(graph, network.positions.values()))
        wide = max(WIDTH, ring_width(max(map(len, network.members.values())) - 1, APART))
        found: Frame = {}
        for broker, (x, y) in sorted(layout.places.items()):
            layer = min(
                (layout.places[hub][1] for hub in layout.hubs), key=lambda each: abs(each - y), default=y
            )
            found[f"p{broker}"] = round(wide * x), -round(WIDTH * layer + wide * (y - layer))
        return found

    def _current(self) -> list[Position]:
        network = self._network
        if not network.heals:
            return [network.positions[broker] for broker in network.living()]
        surveyed = survey_of(network)
        return [current_position(network.positions[broker], surveyed) for broker in surveyed]

    # Clients.

    def clients(self) -> Frame:
        """Return the clients: where they are, what they want, what they were given and have published."""
        sessions = list(self._network.sessions.values())
        found: Frame = {
            f"c{printable(session.name)}": self._client(session) for session in sessions[:CLIENTS_MAX]
        }
        if len(sessions) > CLIENTS_MAX:
            found["more"] = len(sessions) - CLIENTS_MAX
        return found

    def client(self, name: ClientId) -> Frame:
        """Return one client."""
        return {f"c{printable(name)}": self._client(self._network.sessions[name])}

    def _client(self, session: ClientSession) -> ClientThen:
        state = "dead" if not session.alive else "left" if session.left else ""
        if not state:
            state = "there" if session.connected else "alone"
        subscribed: tuple[tuple[int, int, bool], ...] = ()
        heard: tuple[tuple[ClientId, int], ...] = ()
        machine = session.subscriber
        if machine is not None:
            subscribed = tuple(
                (number, self._filter(item), number not in machine.unconfirmed)
                for number, item in list(machine.subscriptions.items())[:SUBSCRIPTIONS_MAX]
            )
            heard = tuple(sorted(machine.marks.items())[:MARKS_MAX])
        published = 0 if session.publisher is None else session.publisher.published
        return ClientThen(session.home.id, state, subscribed, heard, published)

    # What is under way.

    def flights(self) -> Frame:
        """Return the messages under way: from whom, to whom, what, and when they arrive."""
        found: Frame = {}
        known, self._flights = self._flights, {}
        for order, arrives, pending in under_way(self._network, self._others):
            flight = known.get(order)
            if flight is None:
                flight = Flight(
                    pending.source,
                    pending.targets[0] if pending.targets else None,
                    self._texts.number(name_of(pending.what)),
                    self._texts.number(detail_of(pending.what)),
                    round(1e6 * arrives),
                    int(is_beat(pending.what)),
                )
            self._flights[order] = flight
            if len(found) < UNDER_WAY_MAX:
                found[f"f{order}"] = flight
        return found

    def links(self) -> Frame:
        """Return the links that are cut, and what they hold."""
        network = self._network
        found: Frame = {f"x{one}:{other}": 1 for one, other in sorted(network.cuts.reasons)}
        if found:
            found.update({f"h{source}:{target}": many for source, target, many in held(network)})
        return found


def _state(host: Host) -> str:
    if not host.alive:
        return "gone" if host.gone else "dead"
    return (
        "paused" if host.paused else "slow" if host.factor > 1.0 else "leaving" if host.retiring else "alive"
    )


def _role(place: Position, said: Said) -> tuple[str, BrokerId | None, tuple[BrokerId, ...]]:
    """Return a broker's role, who is above it, and who is below or beside it, as it reports that itself."""
    if "version" in said:
        return "node", None, place.children
    if place.role == "NEB":
        return "member", place.designated, ()
    return ("root" if said.get("root") else "designated"), place.parent, place.children


def _says(said: Said) -> str:
    """Return by what a broker orders its place: the epoch of its cluster and the term of the root, or the view."""
    if "version" in said:
        return f"view {said['version']}: {len(said['view_members'])} brokers"
    settled = "" if said["settled"] and not said["closed"] else WAITS
    return f"epoch {said['view'].epoch}, term {said['term']}{settled}"


__all__ = ["BROKERS_MAX", "WAITS", "Capture"]
