"""Draw networks, simulations and reports with one call.

Rule: a picture shows the recorded data of its subject: its telemetry, its timeline, its figures. If there is
nothing to draw, an error says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ..actors.network.network import Network
from ..actors.pictures.graph import graph_of_places
from ..faults.checker.verdict import HOLDS, UNDECIDED, VIOLATED
from ..faults.report import ChaosReport
from ..protocol import checks
from ..protocol.errors import InputError
from ..recovery.membership.structure import current_position
from ..simulator.simulation import Simulation
from ..simulator.survey import survey_of

if TYPE_CHECKING:
    from ..actors.pictures.picture import Picture

OUTCOMES = {
    HOLDS: "every promise holds",
    VIOLATED: "not every promise holds",
    UNDECIDED: "nothing had to be delivered",
}

WHAT = "a network, a simulation, a report, or reports of chaos"


def draw(what: object) -> Picture:
    """Draw a network, a simulation or a report; notebooks show the result, its `save` writes a file.

    Parameters
    ----------
    what
        A `Network`, or a `Simulation` with ``telemetry=True``: roles, dead brokers, and the number of events
        over each link so far. The result of `rv.report` or `rv.experiment`: see its `draw`. The result of
        `run_chaos`: its timeline, and the messages that it took. Several of these: how long each kind of
        fault was felt.

    Returns
    -------
    Picture
        A matplotlib figure.

    Raises
    ------
    InputError
        If it is none of these, or has nothing to show.
    MissingExtra
        If matplotlib is not installed.
    """
    if isinstance(what, Simulation):
        return _simulation(what)
    if isinstance(what, ChaosReport):
        return _chaos(what)
    if isinstance(what, Sequence) and what and all(isinstance(each, ChaosReport) for each in what):
        return _felt(what)
    if isinstance(what, Network) or hasattr(what, "draw"):
        return what.draw()  # type: ignore[no-any-return]
    raise InputError(f"draw: {checks.shown(what)} is not {WHAT}")


def _simulation(net: Simulation) -> Picture:
    from ..actors.pictures.drawing import draw

    if net.telemetry is None or not net.telemetry.keeps:
        raise InputError("draw: this simulation keeps no telemetry: make it with telemetry=True")
    places = [place for place in net.positions.values() if place.broker in net.living()]
    if net.heals:  # without healing, brokers keep their initial positions
        survey = survey_of(net)
        places = [current_position(place, survey) for place in places]
    transfers = net.telemetry.tables().get("transfers")
    if transfers is None:
        raise InputError("draw: no message has been sent over any link yet")
    graph = graph_of_places("Simulation", net.scheme, places)
    return draw(graph, net.positions.values(), pa.table(dict(transfers)))


def _chaos(report: ChaosReport) -> Picture:
    from ..actors.pictures.picture import stacked
    from .report.chaos_plots import messages_figure, timeline_figure

    title = (
        f"Seed {report.seed}: {report.brokers} brokers, {report.events:,} events; {OUTCOMES[report.outcome]}."
    )
    draws = [partial(timeline_figure, report.timeline)]
    if report.messages:  # only the simulator counts messages
        draws.append(partial(messages_figure, report.messages))
    return stacked(title, draws)


def _felt(reports: Sequence[ChaosReport]) -> Picture:
    from .report.chaos_plots import felt_figure

    felt: dict[str, list[float]] = {}
    for each in (found for report in reports for found in report.recoveries):
        if each.alone and each.structure_seconds is not None:
            felt.setdefault(each.kind, []).append(each.structure_seconds)
    if not felt:
        raise InputError("draw: the faults in these reports overlap, so their effects cannot be told apart")
    drawn: Picture = felt_figure(felt)
    return drawn
