"""Describes in words what brokers do: one line for each input, and below it one line for each effect.

Rules
-----
* Brokers are shown by their labels, filters in square brackets, and events as ``publisher#sequence``.
* ``->`` is a unicast, ``=>`` a multicast, ``table +`` and ``table -`` a change of the routing table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayvous.broker import Broker
from rayvous.protocol.batch import EventBatch, Rows
from rayvous.protocol.configs import Position
from rayvous.protocol.effects import (
    Acknowledge,
    Confirm,
    Deliver,
    Died,
    Drain,
    Drained,
    Effect,
    Flushed,
    Inform,
    Meet,
    Missed,
    Multicast,
    Persist,
    Propose,
    Received,
    Regroup,
    Renew,
    Send,
    TellLost,
    TickAt,
    Ticked,
)
from rayvous.protocol.ids import GROUP, BrokerId, Link
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionMessage,
    AdmissionRequest,
    Advertise,
    Advertised,
    Ask,
    AskAnswer,
    Degraded,
    GuaranteeStatus,
    Judgement,
    News,
    Refusal,
    Release,
    Unadvertised,
    WouldAdmit,
)
from rayvous.protocol.messages.pubsub import (
    Ack,
    Announce,
    Back,
    Cancel,
    Directed,
    Echo,
    Events,
    Message,
    Numbered,
    Register,
    Spread,
    Withdraw,
)
from rayvous.protocol.messages.recovery import (
    RENDEZVOUS,
    JoinAnswer,
    JoinRequest,
    RecoveryMessage,
    TableOfChild,
)
from rayvous.routing.filters.filter import Filter
from rayvous.routing.schemes.viewed import ViewedRouter
from rayvous.simulator.network import Step


class Tracer:
    """Collects the trace of a simulation whose `record` is this object's `record`.

    Parameters
    ----------
    positions
        The positions of the brokers, which give their labels.

    Attributes
    ----------
    lines
        The lines of the trace so far.
    """

    def __init__(self, positions: Sequence[Position]) -> None:
        self.lines: list[str] = []
        self._labels = {place.broker: place.label for place in positions}
        self._tables: dict[BrokerId, dict[str, None]] = {}
        self._texts: dict[Filter, str] = {}

    def record(self, step: Step) -> None:
        """Add one step to the trace."""
        broker, received = step.broker, step.received
        here = broker.position.broker
        below: list[str] = []
        if isinstance(received, Ticked):
            if not step.effects:
                return
            self.lines.append(f"{self.label(here)} at {received.now:.3f} s")
        elif isinstance(received, Drained):
            self.lines.append(f"{self.label(here)} has drained {received.number}")
        elif isinstance(received, Died):
            self.lines.append(f"{self.label(here)} learns that {self.label(received.broker)} is dead")
        elif isinstance(received, Missed):
            way = "the group" if received.over_group else "the link"
            self.lines.append(
                f"{self.label(here)}: {self.label(received.broker)} has missed something of {way}"
            )
        else:
            self.lines.append(
                f"{self.label(here)} <- {self.label(received.source)}: {self._message(received.message)}"
            )
        if not isinstance(received, Received) or not isinstance(received.message, Events | Directed):
            # Events and directed messages do not change the table.
            before = self._tables.get(here, {})
            after = self._tables[here] = dict.fromkeys(self.table(broker))
            below += [f"table + {row}" for row in after if row not in before]
            below += [f"table - {row}" for row in before if row not in after]
        for effect in step.effects:
            below += self._effect(effect)
        self.lines += [f"    {line}" for line in below or ["nothing to do"]]

    def label(self, link: Link) -> str:
        """Return the readable name of a broker, a client, the group or the rendezvous point."""
        if isinstance(link, str):
            return link
        if link == RENDEZVOUS:
            return "rendezvous"
        return "group" if link == GROUP else self._labels[link]

    def table(self, broker: Broker) -> Iterator[str]:
        """Yield the rows of a broker's routing table: a filter, and a link over which it is wanted."""
        for entry in broker.router.table:  # type: ignore[attr-defined]  # every scheme on a tree has one
            for link, holders in entry.links.items():
                row = f"{self._filter(entry.filter)} {self.label(link)}"
                if link == GROUP:
                    row += f" (for {', '.join(self.label(member) for member in holders)})"
                yield row
        if isinstance(broker.router, ViewedRouter):
            for entry in broker.router.others:
                for link in entry.links:
                    yield f"{self._filter(entry.filter)} broker {self.label(link)}"

    def _filter(self, item: Filter) -> str:
        text = self._texts.get(item)
        if text is None:
            text = self._texts[item] = f"[{item}]"
        return text

    def take(self) -> list[str]:
        """Return the lines so far, and start a new list."""
        lines, self.lines = self.lines, []
        return lines

    def _effect(self, effect: Effect) -> list[str]:
        if isinstance(effect, Send):
            return [f"-> {self.label(effect.to)}: {self._message(effect.message)}"]
        if isinstance(effect, Multicast):
            return [f"=> group: {self._message(effect.message)}"]
        if isinstance(effect, Regroup):
            return [f"group: {', '.join(map(self.label, effect.members))}"]
        if isinstance(effect, Renew):
            return [f"renew {'group' if effect.over_group else 'link'} to {self.label(effect.broker)}"]
        if isinstance(effect, Confirm):
            return [f"confirm to {effect.client}: subscription {effect.subscription}"]
        if isinstance(effect, Acknowledge):
            return [f"acknowledge {effect.about} of {effect.client} up to {effect.number}"]
        if isinstance(effect, TickAt | Meet):
            return []  # hints to the host
        if isinstance(effect, Propose):
            return [f"propose to {effect.client}: broker {self.label(effect.broker)}"]
        if isinstance(effect, Persist):
            return [f"persist {write.table}{list(write.key)}" for write in effect.writes]
        if isinstance(effect, TellLost):
            spans = (f"{each.publisher}#{each.first}..{each.last}" for each in effect.losses)
            return [f"report to {effect.client}: lost {' '.join(spans)}"]
        if isinstance(effect, Flushed):
            return [f"flushed to {effect.client}: question {effect.number}"]
        if isinstance(effect, Drain):
            return [f"drain {effect.number}"]
        if isinstance(effect, Inform):
            return [f"inform {effect.client}: {_news(effect.news)}"]
        return list(_deliveries(effect))

    def _message(self, message: Message | RecoveryMessage | AdmissionMessage | AdmissionRequest) -> str:
        if isinstance(message, Numbered):
            return f"adv {message.number}: {self._message(message.message)}"
        if isinstance(message, Ack | Back):
            return f"{type(message).__name__.lower()} {message.number}"
        if isinstance(message, Events):
            return f"event {_events(message.batch, range(len(message.batch)))}"
        if isinstance(message, Directed):
            return "event " + " ".join(
                f"{_events(message.batch, [row])} for {', '.join(map(self.label, targets))}"
                for row, targets in enumerate(message.targets)
            )
        if isinstance(message, Register):
            return f"subscribe {message.subscription} {self._filter(message.filter)}"
        if isinstance(message, Cancel):
            return f"unsubscribe {message.subscription}"
        if isinstance(message, Spread):
            change = "nothing" if message.change is None else self._message(message.change)
            return f"spread {self.label(message.origin)} {message.number}: {change}"
        if isinstance(message, Echo):
            return f"echo {self.label(message.origin)} {message.number}"
        if isinstance(message, Announce | Withdraw):
            return f"{type(message).__name__.lower()} {self._filter(message.filter)}"
        if isinstance(message, JoinRequest):
            wanted = ", ".join(self._filter(item) for item, _ in message.filters)
            return f"take me as a child, wanting {wanted or 'nothing'}"
        if isinstance(message, JoinAnswer):
            return "taken as a child" if message.accepted else f"not taken: {message.reason}"
        if isinstance(message, TableOfChild):
            wanted = ", ".join(map(self._filter, message.filters))
            return f"child cluster {message.child} wants {wanted or 'nothing'}"
        if isinstance(message, Advertise | Advertised):
            return (
                f"{type(message).__name__.lower()} {self._filter(message.filter)} {message.rate / MICRO:g}/s"
            )
        if isinstance(message, Unadvertised):
            return f"unadvertised {message.publisher} {message.number}"
        if isinstance(message, Ask | WouldAdmit | Release):
            dry = "dry " if isinstance(message, Ask) and message.dry else ""
            return f"{dry}{type(message).__name__.lower()} {self._filter(message.filter)}"
        if isinstance(message, AskAnswer):
            return f"verdict of {message.asked}: {_refusals(message.refusals)}"
        if isinstance(message, Degraded):
            return f"degraded {self._filter(message.filter)}: {_refusals(message.refusals)}"
        return type(message).__name__.lower()  # Installed, Detach, and all messages of recovery


def _news(news: News) -> str:
    if isinstance(news, Judgement):
        word = "admitted" if news.admitted else "refused"
        return f"{word} {news.number} by {news.asked}: {_refusals(news.refusals)}"
    if isinstance(news, GuaranteeStatus):
        return f"guarantee of {news.number}: {_refusals(news.refusals)}"
    return f"advertisement {news.number} is everywhere"


def _refusals(refusals: Sequence[Refusal]) -> str:
    return "; ".join(map(str, refusals)) or "all is well"


def _deliveries(effect: Deliver) -> Iterator[str]:
    for place, client in enumerate(effect.clients):
        rows = effect.rows[effect.starts[place] : effect.starts[place + 1]]
        yield f"notify {client}: {_events(effect.batch, rows)}"


def _events(batch: EventBatch, rows: Rows | range | list[int]) -> str:
    return " ".join("#".join(map(str, batch.identity(row))) for row in rows)
