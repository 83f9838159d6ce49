"""The states of one process, which is a value machine that ships, and how it gets from one to another.

Rules
-----
* The machine itself is the transition function: there is no model of it. A state is known by the digest of its
  snapshot (`protocol.snapshots`) and of its stable store, and gets a number.
* Beside each number stands one way to it: the store at the start of the incarnation and the inputs since. A step from
  a state makes a new machine, hands it these inputs and the next one, and carries out the writes. So nothing rests on
  the restoration of snapshots: a snapshot that omits something could at most take two states for one.
* A step is made once. A network of several processes takes the same local steps in very many global states, which
  makes thousands of these a second.
* What a machine only counts, for people to see, is not part of its state (`COUNTERS`).
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ...broker import Broker
from ...protocol.effects import Key, Persist, Write
from ...protocol.snapshots import Part, Restorable, state_of
from ...recovery.durability.stores import MemoryStore

T = TypeVar("T")

COUNTERS: Final = frozenset({"resent", "refused", "strays"})
"""Attributes that count for `describe`, and that no rule reads."""

Said: TypeAlias = Any
"""An input or an effect of a machine: a message, or what a host or a client is told."""

Tables: TypeAlias = Mapping[str, Mapping[Key, object]]
"""What a store contains: rows by table."""


class Machine(Protocol):
    """A process: it handles one input, and can be looked at."""

    def handle(self, given: Said) -> Sequence[Said]:
        """Handle one input and return the effects, in order."""
        ...

    def state(self) -> object:
        """Return everything on which its further behaviour depends, as a snapshot."""
        ...


class Numbering(Generic[T]):
    """Numbers for values, by their digest: equal values get one number, from 0."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[Hashable, int] = {}

    def __getitem__(self, number: int) -> T:
        return self.values[number]

    def number(self, value: T, key: Hashable = None) -> int:
        """Return the number of a value; `key` stands for it, or its digest if None."""
        known = self._numbers.setdefault(digest(value) if key is None else key, len(self.values))
        if known == len(self.values):
            self.values.append(value)
        return known


class Outcome(NamedTuple):
    """What a step of a process leads to.

    Attributes
    ----------
    state
        The state after it.
    effects
        Its effects without the writes, in order.
    crashes
        (number of a store, number of effects carried out) for each place between two effects at which it may crash;
        the last one is after all of them.
    """

    state: int
    effects: tuple[Said, ...]
    crashes: tuple[tuple[int, int], ...]


class Process:
    """All states of one process that were reached so far.

    Parameters
    ----------
    make
        Makes the machine of a new incarnation from its store.

    Attributes
    ----------
    errors
        What the machine raised, by the number of the state to which that led.
    empty
        The number of the store with which a process first starts.
    """

    def __init__(self, make: Callable[[MemoryStore], Machine]) -> None:
        self._make = make
        self._stores: Numbering[Tables] = Numbering()
        self._runs: Numbering[tuple[int, tuple[Said, ...], int]] = (
            Numbering()
        )  # store at start, inputs, store now
        self._begun: dict[int, int] = {}
        self._steps: dict[tuple[int, Hashable], Outcome] = {}
        self.errors: dict[int, str] = {}
        self.empty = self._stores.number({})

    def begin(self, store: int) -> int:
        """Return the state of an incarnation that starts from this store."""
        if store not in self._begun:
            machine = self._make(store_of(self._stores[store]))
            key = digest((machine.state(), store))
            self._begun[store] = self._runs.number((store, (), store), key)
        return self._begun[store]

    def stored(self, tables: Tables) -> int:
        """Return the number of a store with these rows."""
        return self._stores.number(tables)

    def read(self, state: int, table: str) -> Said:
        """Return the only value of a table of the store in a state; 0 if there is none."""
        return next(iter(self._stores[self._runs[state][2]].get(table, {}).values()), 0)

    def store(self, state: int) -> int:
        """Return the number of what is stable in a state."""
        return self._runs[state][2]

    def inputs(self, state: int) -> tuple[Said, ...]:
        """Return the inputs of this incarnation on one way to a state."""
        return self._runs[state][1]

    def after(self, state: int, given: object, name: Hashable) -> Outcome:
        """Return what happens when a machine in this state handles an input; `name` stands for the input."""
        known = self._steps.get((state, name))
        if known is None:
            known = self._steps[state, name] = self._step(state, given)
        return known

    def machine(self, state: int) -> Machine:
        """Return a machine in this state, for inspection."""
        start, inputs, _ = self._runs[state]
        return self.made(start, inputs)

    def made(self, store: int, inputs: Iterable[Said]) -> Machine:
        """Return a machine that started from a store and has handled these inputs."""
        machine = self._make(store_of(self._stores[store]))
        for each in inputs:
            machine.handle(each)
        return machine

    def _step(self, state: int, given: object) -> Outcome:
        start, inputs, now = self._runs[state]
        machine = self.machine(state)
        effects: list[Said] = []
        crashes: list[tuple[int, int]] = []
        try:
            handled = machine.handle(given)
        except Exception as error:  # whatever a broken machine raises is a finding
            failed = self._runs.number((start, inputs, now), (state, repr(error)))
            self.errors[failed] = f"{type(error).__name__}: {error}"
            return Outcome(failed, (), ())
        for effect in handled:
            if isinstance(effect, Persist):
                now = self._stores.number(_committed(self._stores[now], effect.writes))
            else:
                effects.append(effect)
            crashes.append((now, len(effects)))
        key = digest((machine.state(), now))
        after = self._runs.number((start, (*inputs, given), now), key)
        return Outcome(after, tuple(effects), tuple(dict.fromkeys(crashes)))

    @property
    def found(self) -> tuple[int, int]:
        """The number of its states, and of its steps."""
        return len(self._runs.values), len(self._steps)


def replaced(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    """Return the tuple with another value in one place."""
    return (*values[:place], value, *values[place + 1 :])


def store_of(tables: Tables) -> MemoryStore:
    """Return a store with these rows."""
    store = MemoryStore()
    store.commit([Write(table, key, value) for table, rows in tables.items() for key, value in rows.items()])
    return store


def _committed(tables: Tables, writes: Sequence[Write]) -> Tables:
    after = {table: dict(rows) for table, rows in tables.items()}
    for table, key, value in writes:
        rows = after.setdefault(table, {})
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    return after


def snapshot_of(machine: object) -> object:
    """Return the snapshot of a machine, without what it only counts."""
    kept = machine.snapshot() if isinstance(machine, Restorable) else state_of(machine)
    return _without_counters(kept)


def snapshots_of(broker: Broker) -> list[object]:
    """Return the snapshots of the layers of a broker, without what they only count."""
    return [snapshot_of(layer) for layer in broker.pipeline.layers]


def _without_counters(value: Said) -> Said:
    kind = type(value)
    if kind is Part:
        return value._replace(parts=_without_counters(value.parts))
    if kind is dict:
        return {key: _without_counters(each) for key, each in value.items() if key not in COUNTERS}
    if kind in (list, tuple):
        return kind(map(_without_counters, value))
    return value


class _Digesting(pickle.Pickler):
    """Pickles by structure: what is equal gives the same bytes, whether or not its parts are one object.

    The order of mappings is part of them. That can only make two states of one, never one of two.
    """

    def reducer_override(self, value: object) -> Said:
        """Bring the members of sets, which have no order, into one."""
        if type(value) is Part and value.kind in ("set", "frozenset"):
            return Part, (value.kind, value.name, sorted(value.parts, key=repr))
        return NotImplemented


def digest(value: object) -> bytes:
    """Return a digest of a snapshot or of a message."""
    out = io.BytesIO()
    pickler = _Digesting(out, 5)
    pickler.fast = True  # without this, the bytes would depend on which equal parts are one object
    pickler.dump(value)
    return blake2b(out.getbuffer(), digest_size=16).digest()
