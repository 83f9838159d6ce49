"""A player of runs in virtual time: forward and back, to the next death or election, one run or two side by side.

Rules
-----
* What is shown at a moment is what brokers and clients themselves say at that moment. `simulation` gives the network
  as it is then, made again from a snapshot: one may look at anything, change it, and step on from there.
* The page has all moments as differences, and needs no kernel and no other file.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from heapq import merge
from pathlib import Path
from typing import Final, NamedTuple

from ...actors.pictures.player_page import page_of
from ...protocol import checks
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId
from ...protocol.scenarios.scenario import Scenario
from ...simulator.simulation import Simulation
from ..plans.cases import Case
from .frames import Flight, Frame, TableThen, Texts, apply, brokers_in, clients_in
from .recording import KINDS, Moment, Recording
from .runs import Run, run_of
from .words import who

SECONDS: Final = 30.0
FRAMES_APART: Final = 256
"""How many moments lie between two frames that are kept whole."""


class Place(NamedTuple):
    """A place in the joint order of the moments of all runs: whose moment it is, and its number there."""

    at_seconds: float
    run: int
    number: int


class Then:
    """One run at one moment.

    Attributes
    ----------
    name, moment, number
        The run, the moment and its number.
    frame
        The network as it was then, by key (:mod:`~.capture`).
    """

    def __init__(self, name: str, moment: Moment, number: int, frame: Frame, texts: Sequence[str]) -> None:
        self.name, self.moment, self.number, self.frame = name, moment, number, frame
        self._texts = texts

    def brokers(self) -> dict[BrokerId, dict[str, object]]:
        """Return each broker: its state, its place as it says it, its table, and the sizes of its state."""
        found: dict[BrokerId, dict[str, object]] = {}
        for broker, then in brokers_in(self.frame):
            table, sizes = self.frame.get(f"t{broker}"), self.frame.get(f"s{broker}", ())
            assert isinstance(sizes, tuple)
            entries = table.entries if isinstance(table, TableThen) else ()
            found[broker] = {
                **then._asdict(),
                "table": [[self._texts[item], link] for item, link in entries],
                "sizes": {self._texts[name]: many for name, many in sizes},
            }
        return found

    def clients(self) -> dict[ClientId, dict[str, object]]:
        """Return each client: where it is, what it wants, and the last event of each publisher that it was given."""
        return {
            name: {
                "broker": then.home,
                "state": then.state,
                "subscriptions": {
                    number: {"selector": self._texts[text], "in_force": confirmed}
                    for number, text, confirmed in then.subscriptions
                },
                "given": dict(then.given),
                "published": then.published,
            }
            for name, then in clients_in(self.frame)
        }

    def under_way(self) -> list[dict[str, object]]:
        """Return the messages under way, the first to arrive first; without heartbeats."""
        return [
            {
                "from": flight.source,
                "to": flight.target,
                "message": self._texts[flight.kind],
                "about": self._texts[flight.about],
                "arrives_at": flight.arrives / 1e6,
            }
            for flight in self._flights()
        ]

    def _flights(self) -> list[Flight]:
        found = [each for each in self.frame.values() if isinstance(each, Flight) and not each.is_beat]
        return sorted(found, key=lambda each: each.arrives)

    @property
    def lines(self) -> list[str]:
        """The moment in words, and each broker, client and message on a line."""
        moment = self.moment
        found = [f"{moment.at_seconds:.4f} s, moment {self.number} of {self.name}: {moment.text}"]
        for broker, then in brokers_in(self.frame):
            table = self.frame.get(f"t{broker}")
            place = then.role if then.above is None else f"cluster {then.cluster}, below {then.above}"
            size = table.size if isinstance(table, TableThen) else 0
            what = f", {place}, {then.says}, {size} entries" if then.says else ""
            found.append(f"  {who(broker)}: {then.state}{what}")
        for name, client in clients_in(self.frame):
            given = ", ".join(f"{publisher}:{number}" for publisher, number in client.given)
            wants = ", ".join(self._texts[text] for _, text, _ in client.subscriptions)
            parts = [f"at broker {client.home}"]
            parts += [f"wants {wants}"] * bool(wants) + [f"was given {given}"] * bool(given)
            parts += [f"has published {client.published}"] * bool(client.published)
            found.append(f"  {name}: " + ", ".join(parts))
        for flight in self._flights():
            ends = f"from {who(flight.source)} to {who(flight.target)}"
            found.append(
                f"  under way: {self._texts[flight.kind]} {ends}, arrives at {flight.arrives / 1e6:.4f} s"
            )
        return found

    def to_dict(self) -> dict[str, object]:
        """Return the moment and the network as plain data."""
        return {
            "run": self.name,
            "moment": self.number,
            "at_seconds": self.moment.at_seconds,
            "kinds": list(self.moment.kinds),
            "text": self.moment.text,
            "brokers": self.brokers(),
            "clients": self.clients(),
            "under_way": self.under_way(),
        }


class Player:
    """Runs that were recorded, and a moment at which one looks at them; :func:`step` makes it.

    The methods that move return the player, so that a notebook shows it at its new moment.
    """

    def __init__(self, runs: Sequence[Run], title: str = "") -> None:
        self._texts = Texts()
        self._runs = tuple(runs)
        self.recordings: tuple[Recording, ...] = tuple(run.record(self._texts) for run in self._runs)
        self.title = title or " and ".join(run.name for run in self._runs)
        self._order = list(merge(*(_places(each, number) for number, each in enumerate(self.recordings))))
        self._here = 0
        self._frames = [_Frames(each.moments) for each in self.recordings]
        self._all = all(moment.quiet for each in self.recordings for moment in each.moments[1:])

    def __len__(self) -> int:
        return len(self._order)

    # Where one looks.

    @property
    def place(self) -> Place:
        """The present place."""
        return self._order[self._here]

    def then(self, run: int = 0) -> Then:
        """Return a run as it was at this moment."""
        number = self._number(run)
        moment = self.recordings[run].moments[number]
        return Then(self._runs[run].name, moment, number, self._frames[run].at(number), self._texts.all)

    def _number(self, run: int) -> int:
        """Return the last moment of a run that is not after the present place."""
        checks.whole_number("run", run, 0, len(self._runs) - 1)
        return max((each.number for each in self._order[: self._here + 1] if each.run == run), default=0)

    @property
    def simulation(self) -> Simulation:
        """The network as it is at this moment, made again; one's own, to look at and to change."""
        return self.simulation_of(self.place.run)

    def simulation_of(self, run: int) -> Simulation:
        """Return the network of one of several runs as it is at this moment."""
        moment = self.recordings[run].moments[self._number(run)]
        return self._runs[run].simulation(moment.reached)

    def kinds(self) -> dict[str, int]:
        """Return how many moments of each kind there are."""
        moments = [moment for each in self.recordings for moment in each.moments[1:]]
        return {kind: sum(kind in moment.kinds for moment in moments) for kind in KINDS}

    # Moving.

    def forward(self, steps: int = 1) -> Player:
        """Go on by so many moments, or to the end.

        Heartbeats and ticks of which nothing came are passed over, unless there is nothing else.
        """
        return self._walk(checks.whole_number("steps", steps, 0), 1)

    def back(self, steps: int = 1) -> Player:
        """Go back by so many moments, or to the beginning."""
        return self._walk(checks.whole_number("steps", steps, 0), -1)

    def _walk(self, steps: int, way: int) -> Player:
        here = self._here
        while steps and 0 <= here + way < len(self._order):
            here += way
            steps -= self._all or not self._moment(here).quiet
        self._here = here
        return self

    def to(self, kind: str, *, back: bool = False) -> Player:
        """Go to the next moment of a kind, or to the one before.

        Raises
        ------
        InputError
            If there is none.
        """
        checks.one_of("kind", kind, KINDS)
        places = range(self._here - 1, -1, -1) if back else range(self._here + 1, len(self._order))
        found = next((place for place in places if kind in self._moment(place).kinds), None)
        if found is None:
            there = ", ".join(f"{many} {name}" for name, many in self.kinds().items() if many)
            where = "before" if back else "after"
            raise InputError(
                f"there is no {kind} {where} {self.place.at_seconds:.3f} s; in all there are {there}"
            )
        self._here = found
        return self

    def at(self, seconds: float) -> Player:
        """Go to the last moment that is not after a time; to the first if there is none."""
        checks.number("seconds", seconds)
        self._here = max(
            (place for place, each in enumerate(self._order) if each.at_seconds <= seconds), default=0
        )
        return self

    def _moment(self, place: int) -> Moment:
        found = self._order[place]
        return self.recordings[found.run].moments[found.number]

    def notes(self) -> list[str]:
        """Return what of each run is not shown, in words; "" if all is."""
        return [_note(each) for each in self.recordings]

    # Showing.

    @property
    def lines(self) -> list[str]:
        """Each run at this moment, in words."""
        return [line for run in range(len(self._runs)) for line in self.then(run).lines]

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def story(self) -> list[str]:
        """Return the moments in words, in order, without what `forward` passes over."""
        several = len(self._runs) > 1
        return [
            f"{each.at_seconds:10.4f} s  {f'{self._runs[each.run].name}: ' if several else ''}{moment.text}"
            for place, each in enumerate(self._order)
            if not (moment := self._moment(place)).quiet or self._all
        ]

    def data(self) -> dict[str, object]:
        """Return what the page is made of."""
        runs = [
            {
                "name": run.name,
                "note": _note(each),
                "moments": [self._plain(moment) for moment in each.moments],
            }
            for run, each in zip(self._runs, self.recordings, strict=True)
        ]
        return {"kinds": KINDS, "texts": self._texts.all, "runs": runs, "here": self._here}

    def _plain(self, moment: Moment) -> list[object]:
        kinds = sum(1 << KINDS.index(kind) for kind in moment.kinds)
        return [
            round(1e6 * moment.at_seconds),
            kinds,
            self._texts.number(moment.text),
            moment.way or 0,
            moment.changes,
        ]

    def html(self) -> str:
        """Return a page with all moments, which begins at this one and needs no other file and no kernel."""
        return page_of(self.data(), self.title)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file that ends in .html, and return its path.

        Raises
        ------
        InputError
            If it cannot be written there, or has another suffix.
        """
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise InputError(f"{path}: the file must end in .html")
        try:
            Path(path).write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
        return Path(path)

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        height = 720 if len(self._runs) == 1 else 860
        return (
            f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0" '
            f'title="{html.escape(self.title, quote=True)}"></iframe>'
        )


class _Frames:
    """The frames of a recording: some whole ones, from which the others follow."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._moments = moments
        self._whole: list[Frame] = []
        frame: Frame = {}
        for number, moment in enumerate(moments):
            apply(frame, moment.changes)
            if number % FRAMES_APART == 0:
                self._whole.append(dict(frame))

    def at(self, number: int) -> Frame:
        """Return the frame of a moment."""
        base = number // FRAMES_APART
        frame = dict(self._whole[base])
        for moment in self._moments[base * FRAMES_APART + 1 : number + 1]:
            apply(frame, moment.changes)
        return frame


def _places(recording: Recording, run: int) -> list[Place]:
    return [Place(moment.at_seconds, run, number) for number, moment in enumerate(recording.moments)]


def _note(recording: Recording) -> str:
    """Return what of a run is not shown."""
    found = []
    if recording.stride:
        kept = "every moment" if recording.stride == 1 else f"one of {recording.stride} moments"
        found.append(f"so much happens that only {kept} with a consequence is shown")
    if recording.ended:
        found.append(recording.ended)
    return "; ".join(found)


def step(
    run: Simulation | Scenario | Case,
    beside: Simulation | Scenario | Case | None = None,
    *,
    seconds: float = SECONDS,
    names: Sequence[str] = (),
    title: str = "",
) -> Player:
    """Record a run in virtual time, and return a player of it.

    Parameters
    ----------
    run
        A simulation, which goes on from where it is and is itself left there; or a scenario, or a case of chaos.
    beside
        Another run, to compare: both share the time.
    seconds
        How long a simulation goes on; scenarios and cases end by themselves.
    names
        What the runs are called; their schemes if not given.
    title
        The heading of the page.

    Raises
    ------
    InputError
        If a run is none of these, is too large to be drawn, or cannot be taken as it is, for example because it has
        stores in files.

    Examples
    --------
    >>> from rayvous.simulator import Simulation
    >>> from rayvous.protocol.messages.recovery import Recovery
    >>> from rayvous.routing.topologies.cluster_trees import ClusterTree
    >>> simulation = Simulation(ClusterTree(clusters=2, brokers_per_cluster=2), recovery=Recovery.for_simulator())
    >>> simulation.at(2.0, simulation.crash, 3)
    >>> player = step(simulation, seconds=10.0).to("death")
    >>> player.then().moment.text
    'broker 3 dies'
    >>> player.to("election").then().brokers()[2]["role"]
    'designated'
    """
    checks.seconds("seconds", seconds)
    given = [run] if beside is None else [run, beside]
    called = [*checks.texts("names", names), *[""] * len(given)]
    for each in given:
        checks.instance("run", each, Simulation | Scenario | Case, "a Simulation, a Scenario or a Case")
    return Player([run_of(each, seconds, name) for each, name in zip(given, called, strict=False)], title)


__all__ = ["Place", "Player", "Then", "step"]
