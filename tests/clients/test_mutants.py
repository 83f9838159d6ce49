"""Takes one rule of the client machines away at a time, and tests that a test of the machines or a simulation fails.

Every function of the machines is switched off: it returns nothing. Rules that are only a part of a function have a
row below. The checks are the tests of the machines in this folder, and small simulations of clients whose messages
are compared with those of the unchanged machines.
"""

import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import pytest
from rayvous.clients.last_values import LastValues
from rayvous.clients.link import ClientLink, ClientLinks
from rayvous.clients.past import PastReader
from rayvous.clients.publisher import PublisherMachine
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.protocol.messages.admission import Unadvertise
from rayvous.protocol.messages.pubsub import Ack, Events, Lost, Register

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
MACHINES = (PublisherMachine, SubscriberMachine, ClientLinks, ClientLink, PastReader, LastValues)
SEEDS = 3
"""How many of its seeds a test of the past runs with."""
STEPS_MAX = 200
"""By which a test of the past that reads for ever is known; the unchanged machines take a third of it."""
TOO_LONG = "test_marks_against_a_set_of_numbers"


class Mutant(NamedTuple):
    """A rule that can be switched off."""

    name: str
    off: Callable[[pytest.MonkeyPatch], None]


def without(owner: type, method: str) -> Mutant:
    """Return the mutant whose method returns nothing."""
    empty = {"list": [], "dict": {}, "bool": False, "int": 0, "tuple": ()}
    returns = str(getattr(owner, method).__annotations__.get("return", "None")).split("[")[0]
    return Mutant(
        f"{owner.__name__}.{method}",
        lambda patch: patch.setattr(owner, method, lambda self, *given, **named: empty.get(returns)),
    )


def around(name: str, owner: type, method: str, changed: Callable[..., Any]) -> Mutant:
    """Return the mutant whose method is `changed(real, self, ...)`."""
    real = getattr(owner, method)

    def off(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, method, lambda self, *given, **named: changed(real, self, *given, **named))

    return Mutant(name, off)


def after(name: str, owner: type, method: str, undo: Callable[..., Any]) -> Mutant:
    """Return the mutant that calls `undo(self, ...)` after its method."""

    def changed(real: Any, self: Any, *given: Any, **named: Any) -> Any:
        answer = real(self, *given, **named)
        undo(self, *given)
        return answer

    return around(name, owner, method, changed)


FUNCTIONS = [
    without(owner, name)
    for owner in MACHINES
    for name, found in vars(owner).items()
    if callable(found) and not name.startswith("__")
]


def _says_at_once(real: Any, self: Any, messages: Any, now: float) -> Any:
    return messages


def _ends_nothing(real: Any, self: Any, now: float) -> Any:
    self.withdrawn.clear()
    return real(self, now)


def _keeps_what_is_held(real: Any, self: Any, now: float) -> Any:
    before = list(self._held)
    said = real(self, now)
    self._held[:0] = before
    return said


def _ages_all(real: Any, self: Any, message: Any, seconds: float) -> Any:
    if not isinstance(message, Events) or not message.retransmitted:
        return message
    more = {name: getattr(message, name) + seconds for name in ("age_seconds", "forgot_seconds")}
    return replace(message, **more)


def _leaves_for_good(real: Any, self: Any) -> Any:
    return [Unadvertise(message.number) for message in real(self)]


def _knows_no_version(real: Any, self: Any, now: float) -> None:
    self.version += 1


def _repeats_all(real: Any, self: Any, numbers: Any = None) -> Any:
    return real(self, self.subscriptions if numbers is None else numbers)


def _is_judged_again(real: Any, self: Any, number: int, wanted: Any) -> Register:
    self.admitted.discard(number)
    return real(self, number, wanted)  # type: ignore[no-any-return]


def _begins_anew(self: Any, number: int, begins: Any = None) -> None:
    if number in self._begins:
        self._begins[number] = begins or {}


def _takes_all(real: Any, self: Any, number: int) -> tuple[bool, Ack]:
    return True, real(self, number)[1]


def _starts_at_0(self: Any, *given: Any) -> None:
    self.published = 0


def _goes_back(real: Any, self: Any, marks: Any = None) -> Any:
    said = real(self, marks)
    self.position |= marks or {}
    return said


def _confuses(real: Any, self: Any, about: str, number: int) -> None:
    real(self, "events", number)


def _drops_what_is_acknowledged(self: Any, *given: Any) -> None:
    if self.past is not None:
        todo = {name: (done, to) for name, (done, to) in self.past["todo"].items() if done < to}
        self.past = self.past | {"todo": todo}


def _wants_every_event(self: Any, *given: Any) -> None:
    if self.past is not None:
        self.past = {name: value for name, value in self.past.items() if name not in ("last_per", "begins")}


def _hands_on_all(real: Any, self: Any, behind: Any, part_events: int) -> Any:
    return real(self, {}, part_events)


def _tells_all(real: Any, self: Any, name: str, first: int, last: int) -> Any:
    real(self, name, first, last)
    return [Lost(name, first, last)]


def _forgets(*fields: str) -> Callable[..., None]:
    def undo(self: Any, *given: Any) -> None:
        for field in fields:
            getattr(self, field).clear()

    return undo


def _keeps(field: str) -> Callable[..., Any]:
    """Return a change after which a method leaves a mapping or a set as it was."""

    def changed(real: Any, self: Any, *given: Any, **named: Any) -> Any:
        before = getattr(self, field).copy()
        answer = real(self, *given, **named)
        setattr(self, field, before)
        return answer

    return changed


PARTS = [
    around("what is said waits for advertisements", PublisherMachine, "_say", _says_at_once),
    around("what is held is part of what is retained", PublisherMachine, "arrive", _keeps_what_is_held),
    around("a withdrawn advertisement goes along", PublisherMachine, "arrive", _ends_nothing),
    around("a withdrawal has a version", PublisherMachine, "leave", _leaves_for_good),
    around("a later process has a higher version", PublisherMachine, "_renew", _knows_no_version),
    around("what is not accepted is retained", PublisherMachine, "_is_accepted", lambda real, self, batch: True),
    around("what is withdrawn is known no more", PublisherMachine, "unadvertise", _keeps("adverts")),
    after("what was published counts", PublisherMachine, "reattach", _starts_at_0),
    around("what was held has an age", PublisherMachine, "_aged", lambda real, self, message, seconds: message),
    around("what no broker has accepted has no age", PublisherMachine, "_aged", _ages_all),
    around("only what is not in force is requested", SubscriberMachine, "request", _repeats_all),
    around("what was admitted says so", SubscriberMachine, "_register", _is_judged_again),
    after("a beginning stays", SubscriberMachine, "confirmed", _begins_anew),
    around("what is cancelled was not admitted", SubscriberMachine, "cancel", _keeps("admitted")),
    around("another broker knows what is lacking", SubscriberMachine, "arrive", _keeps("lacking")),
    around("what is confirmed is not awaited", SubscriberMachine, "confirmed", _keeps("unconfirmed")),
    around("what is confirmed was admitted", SubscriberMachine, "confirmed", _keeps("admitted")),
    around("a position never goes back", SubscriberMachine, "acknowledge", _goes_back),
    after("priorities outlive the process", SubscriberMachine, "restore", _forgets("_priorities")),
    after("ages outlive the process", SubscriberMachine, "restore", _forgets("_begun")),
    after("a position is what was given", SubscriberMachine, "restore", _forgets("marks")),
    after("a past of last events stays whole", SubscriberMachine, "_acknowledge_past", _drops_what_is_acknowledged),
    after("which events are wanted outlives the process", SubscriberMachine, "restore", _wants_every_event),
    around("what is acknowledged is not handed on again", LastValues, "chosen", _hands_on_all),
    around("what is acknowledged is not told to be lost", PastReader, "_lost", _tells_all),
    around("a duplicate is not new", ClientLink, "take", _takes_all),
    around("each interface has its own numbers", ClientLinks, "acknowledged", _confuses),
]  # fmt: skip


def checks() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the tests of the machines by name, and the simulations, which return what clients have said."""
    for file in ("test_subscriber.py", "test_link.py"):
        for name, found in runpy.run_path(str(HERE / file)).items():
            if name.startswith("test_") and name != TOO_LONG:
                yield name, found
    for file in ("test_past.py", "test_last_values.py"):
        for name, found in runpy.run_path(str(HERE / file)).items():
            if name.startswith("test_"):
                found.__globals__["STEPS_MAX"] = STEPS_MAX
                drawn = "seed" in found.__annotations__
                yield from (
                    ((f"{name}[{n}]", partial(found, n)) for n in range(SEEDS)) if drawn else [(name, found)]
                )
    both = runpy.run_path(str(HERE.parent / "actors" / "clients" / "test_both_hosts.py"))
    for name, (_, in_virtual_time) in both["SAME"].items():
        yield name, in_virtual_time


class Checked(NamedTuple):
    """A check, what it returns with the unchanged machines, with which it passes, and what processor time it takes."""

    name: str
    check: Callable[[], Any]
    says: Any
    seconds: float


@cache
def checked() -> list[Checked]:
    """Return the checks, the quick ones first: most mutants fail one of them."""
    found = []
    for name, check in checks():
        began = process_time()
        says = check()
        found.append(Checked(name, check, says, process_time() - began))
    return sorted(found, key=lambda each: each.seconds)


def failing() -> str | None:
    """Return the first check that fails, or None."""
    for each in checked():
        try:
            if each.check() != each.says:
                return each.name
        except Exception:
            return each.name
    return None


@pytest.mark.parametrize("mutant", [*FUNCTIONS, *PARTS], ids=lambda mutant: mutant.name)
def test_without_this_rule_a_client_is_wrong(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    checked()
    mutant.off(monkeypatch)
    assert failing() is not None
