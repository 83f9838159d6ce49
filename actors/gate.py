"""What a delivering broker lets through to its subscribers: over open links, and what they have not had."""

from __future__ import annotations

import numpy as np

from ..faults.ledger import Ledger
from ..faults.rounds import Rounds
from ..protocol.effects import Deliver
from ..protocol.messages import Events


def admitted(deliver: Deliver, events: Events, rounds: Rounds, ledger: Ledger, now: float) -> Deliver | None:
    """Return the part of a delivery that may be made, and note it in the ledger; None when there is nothing.

    Parameters
    ----------
    deliver
        What matches.
    events
        The message that it comes from.
    rounds, ledger
        Which clients' links are open, and what each client has had.
    now
        The time, by the clock here.
    """
    clients: list[str] = []
    pieces = []
    accepted = now - events.age_seconds if events.again else None
    for place, client in enumerate(deliver.clients):
        if not rounds.passes(client, events.round):
            continue
        rows = deliver.rows[deliver.starts[place] : deliver.starts[place + 1]]
        rows = ledger.admit(client, deliver.batch, rows, accepted=accepted)
        if len(rows):
            clients.append(client)
            pieces.append(rows)
    if not clients:
        return None
    starts = np.cumsum([0, *map(len, pieces)])
    return Deliver(deliver.batch, tuple(clients), starts, np.concatenate(pieces))
