"""What has changed from one frame to the next, in words, and what kinds of moments that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ...simulator.pending import Process
from .capture import WAITS
from .frames import DEAD, BrokerThen, ClientThen, Flight
from .words import cut, who

TARGETS_MAX: Final = 4


def consequences(
    before: Mapping[str, object], changes: Mapping[str, object], texts: Sequence[str]
) -> list[tuple[str, str]]:
    """Return (kind, words) of what has changed.

    Parameters
    ----------
    before
        The frame before.
    changes
        What is different now, by key; None for what is no more.
    texts
        The texts by number.
    """
    found: list[tuple[str, str]] = []
    for key, new in changes.items():
        old = before.get(key)
        if isinstance(new, BrokerThen) and isinstance(old, BrokerThen):
            found += _of_broker(int(key[1:]), old, new)
        elif isinstance(new, ClientThen):
            found += _of_client(key[1:], old if isinstance(old, ClientThen) else None, new, texts)
        elif key[0] == "x":
            found.append(("other", f"the link {key[1:]} is {'cut' if new else 'mended'}"))
    return [*found, *_sent(changes, texts)]


def _of_broker(broker: int, old: BrokerThen, new: BrokerThen) -> Iterator[tuple[str, str]]:
    here = who(broker)
    if old.state != new.state and new.state in DEAD:
        yield "death", f"{here} dies" if new.state == "dead" else f"{here} has left, and its process ends"
        return
    if new.incarnation != old.incarnation:
        yield "restart", f"{here} starts again"
        return
    if old.state != new.state:
        yield "other", f"{here} is {new.state}" if new.state != "alive" else f"{here} goes on as usual"
    if new.role != old.role and new.role in ("designated", "root"):
        root = ", which is the root" if new.role == "root" else ""
        yield "election", f"{here} speaks for cluster {new.cluster}{root}"
    elif new.role == "member" and (new.role, new.above) != (old.role, old.above):
        yield "election", f"{here} follows broker {new.above}"
    elif new.role == "designated" and new.above != old.above:
        yield (
            "place",
            f"cluster {new.cluster} hangs below " + ("nobody" if new.above is None else who(new.above)),
        )
    elif new.role == "designated" and new.above is not None and WAITS in old.says and WAITS not in new.says:
        yield "place", f"cluster {new.cluster} is in its place below {who(new.above)}"
    if new.says != old.says and new.role == "node":
        yield "view", f"{here} has {new.says}"


def _of_client(
    name: str, old: ClientThen | None, new: ClientThen, texts: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if old is None:
        old = ClientThen(new.home, new.state, (), (), 0)
        yield "client", f"{name} comes to {who(new.home)}"
    elif new.home != old.home:
        yield "client", f"{name} moves to {who(new.home)}"
    if new.state != old.state:
        said = {
            "dead": "dies",
            "left": "leaves",
            "alone": "has no broker any more",
            "there": "has a broker again",
        }
        yield "client", f"{name} {said[new.state]}"
    before = {number: confirmed for number, _, confirmed in old.subscriptions}
    for number, text, confirmed in new.subscriptions:
        if number not in before:
            yield "client", f"{name} subscribes, #{number}: {cut(texts[text])}"
        elif confirmed and not before[number]:
            yield "client", f"#{number} of {name} is in force"
        elif before[number] and not confirmed:
            yield "client", f"#{number} of {name} is asked for again"
        before.pop(number, None)
    for number in before:
        yield "client", f"{name} has #{number} no more"
    if new.published > old.published:
        more = f" to {new.published}" if new.published > old.published + 1 else ""
        yield "client", f"{name} publishes {name}:{old.published + 1}{more}"
    if new.given != old.given:
        yield "notification", ""


def _sent(changes: Mapping[str, object], texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return which messages have left, those of one kind together, without heartbeats."""
    sent: dict[tuple[Process | None, int], list[Process | None]] = {}
    for value in changes.values():
        if isinstance(value, Flight) and not value.is_beat:
            sent.setdefault((value.source, value.kind), []).append(value.target)
    found = []
    for (source, kind), targets in sent.items():
        several = list(dict.fromkeys(targets))
        some = ", ".join(who(each) for each in several[:TARGETS_MAX])
        more = f" and {len(several) - TARGETS_MAX} more" if len(several) > TARGETS_MAX else ""
        many = f"{len(targets)} × " if len(targets) > len(several) else ""
        found.append(("message", f"{who(source)} sends {many}{texts[kind]} to {some}{more}"))
    return found


__all__ = ["consequences"]
