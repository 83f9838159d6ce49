"""What an action of a simulated network is, in words, and what has changed by it."""

from __future__ import annotations

from typing import Any, Final

from ...protocol.batch import EventBatch
from ...protocol.effects import Acknowledge, Confirm, Deliver
from ...protocol.messages.pubsub import Numbered
from ...protocol.messages.recovery import RENDEZVOUS, ClusterView
from ...simulator.pending import LOST, OWN, TICK, TURN, UNDER_WAY, Pending, Process

DETAIL_MAX: Final = 70
CLIENTS_MAX: Final = 3


def who(process: Process | None) -> str:
    """Return the name of a process."""
    if process == RENDEZVOUS:
        return "the rendezvous point"
    return f"broker {process}" if isinstance(process, int) else str(process)


def cut(text: str, characters: int = DETAIL_MAX) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def name_of(message: object) -> str:
    """Return what kind of message it is."""
    if isinstance(message, Numbered):
        return name_of(message.message)
    return "Notification" if isinstance(message, Deliver) else type(message).__name__


def detail_of(message: Any) -> str:
    """Return what distinguishes a message from others of its kind; "" if nothing short does."""
    if isinstance(message, Numbered):
        return detail_of(message.message)
    if isinstance(message, Confirm):
        return f"#{message.subscription}"
    if isinstance(message, Acknowledge):
        return f"{message.about} up to {message.number}"
    if isinstance(batch := getattr(message, "batch", None), EventBatch):
        return _events(batch)
    if isinstance(view := getattr(message, "view", None), ClusterView):
        refused = f", refused: {message.reason}" if getattr(message, "reason", "") else ""
        return f"cluster {view.cluster} is led by {view.designated}, epoch {view.epoch}{refused}"
    if (item := getattr(message, "filter", None)) is not None:
        return cut(str(item))
    if isinstance(number := getattr(message, "number", None), int | tuple):
        return ".".join(map(str, number)) if isinstance(number, tuple) else str(number)
    return ""


def _events(batch: EventBatch) -> str:
    if not len(batch):
        return ""
    (name, first), (_, last) = batch.identity(0), batch.identity(len(batch) - 1)
    return f"{name}:{first}" if first == last else f"{name}:{first} to {last}"


def message_words(message: object) -> str:
    """Return a message in words: its kind, and what distinguishes it."""
    detail = detail_of(message)
    return f"{name_of(message)} ({detail})" if detail else name_of(message)


def action_words(pending: Pending) -> str:
    """Return an action in words."""
    if pending.kind == TICK:
        return f"{who(pending.targets[0])} is told the time"
    if pending.kind == TURN:
        return f"{who(pending.targets[0])}, which is slow, takes its next input"
    if pending.kind == LOST:
        lost = f"{message_words(pending.what)} from {who(pending.source)} is lost under way"
        return f"{lost}: an end of it died, or the connection broke"
    if pending.kind == OWN:
        return f"{pending.targets[0]} {pending.what}"
    if pending.kind in UNDER_WAY:
        some = pending.targets[:CLIENTS_MAX]
        more = f" and {len(pending.targets) - len(some)} more" if len(pending.targets) > len(some) else ""
        reaches = ", ".join(map(who, some))
        return f"{message_words(pending.what)} from {who(pending.source)} reaches {reaches}{more}"
    return _other(pending)


def _other(pending: Pending) -> str:
    """Return an action by its words; else by the name of its function, and what short values it is done with."""
    if isinstance(pending.what, str):
        return pending.what
    name = getattr(pending.what, "__name__", type(pending.what).__name__).strip("_").replace("_", " ")
    values = [_value(value) for value in pending.values]
    return cut(" ".join([name, *(value for value in values if value)]), 2 * DETAIL_MAX)


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | str):
        return str(value)
    if isinstance(name := getattr(value, "name", None), str):
        return name
    if isinstance(do := getattr(value, "do", None), str):
        return " ".join(str(each) for each in (do, getattr(value, "client", "")) if each)
    return ""


__all__ = ["action_words", "cut", "detail_of", "message_words", "name_of", "who"]
