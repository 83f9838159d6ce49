"""Which messages of the membership layers state the numbers of publishers that their sender knows (`high_water`).

Rules
-----
* A filter is confirmed over the links over which it was announced. Each answer on the way states what its sender
  knows. So the broker at which the subscription begins learns the numbers of all publishers whose events would have
  come over these links.
* With admission control, brokers are asked because of what publishers behind them advertise. What one published that
  nobody wanted is known there alone; the withdrawal of its advertisement states it, as later nobody is asked.
* Two brokers that join each other state everything; answers state only what is not known behind the link yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from ...protocol.effects import Multicast, Received, Send
from ...protocol.ids import GROUP
from ...protocol.layers import Out
from ...protocol.messages.admission import AskAnswer, Unadvertised
from ...protocol.messages.pubsub import Echo, Installed
from ...protocol.messages.quench import AboveDone
from ...protocol.messages.recovery import JoinAnswer, JoinRequest, MemberInstalled, TableCopy, Wants
from ...protocol.messages.views import ViewWants
from ..replay.high_water import HighWater

JOINING: Final = frozenset({JoinRequest, JoinAnswer, TableCopy, Wants, ViewWants})
ANSWERING: Final = frozenset({Installed, MemberInstalled, AboveDone, Echo, AskAnswer, Unadvertised})
STATING: Final = JOINING | ANSWERING


def learn(high_water: HighWater, event: Received[Any, Any]) -> None:
    """Note what the sender of a message knows."""
    if type(event.message) in STATING:
        high_water.taught(event.message.high_water)


def stated(high_water: HighWater, out: Iterable[Out]) -> list[Out]:
    """Return what a broker sends, with what it knows in the messages that state that."""
    return [_stated(high_water, each) for each in out]


def _stated(high_water: HighWater, out: Any) -> Out:
    kind = type(out)
    if (kind is not Send and kind is not Multicast) or type(out.message) not in STATING:
        return out  # type: ignore[no-any-return]
    link = out.to if kind is Send else GROUP
    marks = high_water.all_for(link) if type(out.message) in JOINING else high_water.news_for(link)
    if not marks:
        return out  # type: ignore[no-any-return]
    return replace(out, message=replace(out.message, high_water=marks))  # type: ignore[no-any-return]
