"""What is asked for of an event with arrays: the attributes that someone names, and the choices between them.

Rules
-----
* The *ways* of an event are the flat events that take one element of each array (`documents`). They are never
  made of the whole event, but of the attributes that are asked for: a `Part` of it.
* The choices of a part are independent. A conjunction of conditions on single attributes is decided on each choice
  alone, without making the ways (`routing.filters.nested`).
* Equal elements count once, as far as they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from .documents import document, members_of, value_in
from .values import Value, is_null, normalize

__all__ = [
    "WAYS_MAX",
    "Array",
    "Choice",
    "Names",
    "NestedEvent",
    "Part",
    "Way",
    "array_at",
    "arrays_at",
    "names_at",
]

WAYS_MAX: Final = 65_536
"""How many ways of an event are looked at where a condition needs them one by one."""


class Names:
    """The attributes that someone asks for, and where in a document they can be.

    Parameters
    ----------
    names
        The attributes of which a condition sees one element.
    whole
        The attributes of which conditions see the whole array (`array_at`). They make no choices.

    Attributes
    ----------
    names
        Both.
    prefixes
        The names, and the names of all objects that can contain them; None for all.
    inside
        What is asked for inside arrays.
    """

    __slots__ = ("inside", "names", "prefixes")

    def __init__(self, names: Iterable[str], whole: Iterable[str] = ()) -> None:
        chosen = frozenset(names)
        self.names = chosen.union(whole)
        prefixes = set(self.names)
        for name in self.names:
            dot = name.find(".")
            while dot >= 0:
                prefixes.add(name[:dot])
                dot = name.find(".", dot + 1)
        self.prefixes: frozenset[str] | None = frozenset(prefixes)
        self.inside: Names = self if chosen == self.names else Names(chosen)

    @classmethod
    def every(cls) -> Names:
        """Return the names of all attributes."""
        out = cls(())
        out.prefixes = None
        return out

    def leads(self, path: str) -> bool:
        """Return whether the value at this path has an attribute that is asked for, or may contain one."""
        return self.prefixes is None or path in self.prefixes

    def __contains__(self, name: object) -> bool:
        return self.prefixes is None or name in self.names


Array: TypeAlias = tuple[Value | None, ...]
"""The elements of an array, in order; an element that is an object is None."""


class Choice(NamedTuple):
    """One element of an array is chosen: the names in its elements, and the elements as far as they are asked for."""

    names: frozenset[str]
    options: tuple[Part, ...]


class Part:
    """What is asked for of an event, or of an element: values that all ways have, and choices.

    Choices are independent of each other, and their names are different. A name of a choice that the chosen option
    does not have is missing. `event` is the event, and None for an element.
    """

    __slots__ = ("choices", "event", "fixed", "names")

    def __init__(
        self, fixed: dict[str, Value], choices: tuple[Choice, ...] = (), event: NestedEvent | None = None
    ) -> None:
        self.fixed = fixed
        self.choices = choices
        self.event = event
        names = frozenset(fixed)
        self.names: frozenset[str] = names.union(*(each.names for each in choices)) if choices else names

    def ways(self, most: int | None = None) -> Iterator[dict[str, Value]]:
        """Iterate over the ways, at most so many; the order is that of the elements."""
        ways = islice(self._ways(most), most)
        event = self.event
        return ways if event is None else (Way(way, event) for way in ways)

    def _ways(self, most: int | None) -> Iterator[dict[str, Value]]:
        options = [
            list(islice(chain.from_iterable(option.ways(most) for option in choice.options), most))
            for choice in self.choices
        ]
        for chosen in product(*options):
            found = dict(self.fixed)
            for way in chosen:
                found.update(way)
            yield found

    def count(self) -> int:
        """Return the number of ways."""
        return prod(sum(option.count() for option in choice.options) for choice in self.choices)

    def size(self) -> int:
        """Return the number of values."""
        inner = sum(option.size() for choice in self.choices for option in choice.options)
        return 1 + len(self.fixed) + inner

    def only(self, names: frozenset[str]) -> Part:
        """Return the part of it that has these names, and all values outside of choices."""
        choices = (_narrowed(choice, names) for choice in self.choices if choice.names & names)
        return Part(self.fixed, tuple(choices), self.event)

    def key(self) -> object:
        """Return a value that is equal for equal parts."""
        fixed = tuple((name, type(value), value) for name, value in sorted(self.fixed.items()))
        if not self.choices:
            return fixed
        return fixed, tuple(
            (choice.names, *(option.key() for option in choice.options)) for choice in self.choices
        )


def _narrowed(choice: Choice, names: frozenset[str]) -> Choice:
    if choice.names <= names:
        return choice
    options = []
    for option in choice.options:
        fixed = {name: value for name, value in option.fixed.items() if name in names}
        inner = (_narrowed(each, names) for each in option.choices if each.names & names)
        options.append(Part(fixed, tuple(inner)))
    return _choice(choice.names & names, options)


def _choice(names: Iterable[str], options: Sequence[Part]) -> Choice:
    """Return a choice; equal options count once."""
    found = options if len(options) == 1 else {option.key(): option for option in reversed(options)}.values()
    return Choice(frozenset(names), tuple(found) if len(options) == 1 else tuple(reversed(found)))


class NestedEvent(dict[str, Value]):
    """An event with arrays, or one that is all in its form: the attributes in columns, and the form."""

    __slots__ = ("_arrays", "_names", "_parsed", "form")

    def __init__(self, attributes: Mapping[str, Value], form: str, parsed: object = None) -> None:
        super().__init__(attributes)
        self.form = form
        self._parsed = parsed
        self._arrays: dict[str, Array | None] = {}
        self._names: frozenset[str] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return NestedEvent, (dict(self), self.form)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NestedEvent) or self.form != other.form:
            return False
        return self.is_whole or dict.__eq__(self, other)

    __hash__ = None

    @property
    def parsed(self) -> Any:
        """The form, parsed."""
        if self._parsed is None:
            self._parsed = json.loads(self.form)
        return self._parsed

    def part(self, names: Names) -> Part:
        """Return what is asked for of the event."""
        form = self.parsed
        fixed: dict[str, Value] = {}
        choices: list[Choice] = []
        if isinstance(form, dict):
            names_here = self.keys() if names.prefixes is None else names.names & self.keys()
            fixed = {name: self[name] for name in names_here}
            _read_members(form, None, names, fixed, choices, inside=False)
        elif len(form) == 1:
            _read_members(members_of(form[0]) or {}, None, names, fixed, choices, inside=True)
        else:  # the ways themselves, as older traces have them
            _read_array(form, None, names, choices)
        return Part(fixed, tuple(choices), self)

    @property
    def ways(self) -> list[dict[str, Value]]:
        """All ways of the event, with all attributes; there may be very many."""
        return list(self.part(Names.every()).ways())

    @property
    def names(self) -> frozenset[str]:
        """The names of all its attributes, those inside arrays too."""
        if self._names is None:
            self._names = self.part(Names.every()).names
        return self._names

    @property
    def is_whole(self) -> bool:
        """Whether everything of the event is in its form."""
        return self.form.startswith("[")

    def filled(self) -> NestedEvent:
        """Return the event with all attributes outside of arrays."""
        if not self.is_whole or self or len(self.parsed) != 1:
            return self
        found: dict[str, Value] = {}
        _read_attributes(members_of(self.parsed[0]) or {}, None, found)
        return NestedEvent(found, self.form, self.parsed)

    def array(self, name: str) -> Array | None:
        """Return what `array_at` returns for the event."""
        if name not in self._arrays:
            found: list[Value | None] = []
            form = self.parsed
            whole = isinstance(form, list)
            there = _gather(form[0] if whole else form, None, name, found, inside=False, whole=whole)
            self._arrays[name] = tuple(found) if there else _single(self.get(name))
        return self._arrays[name]

    def document(self, shown: Callable[[object], object] = lambda value: value) -> dict[str, object]:
        """Return the event as it was given."""
        return document(self, self.parsed, shown)


class Way(dict[str, Value]):
    """A flat event that an event with arrays stands for; `event` has the arrays as a whole."""

    __slots__ = ("event",)

    def __init__(self, attributes: Mapping[str, Value], event: NestedEvent) -> None:
        super().__init__(attributes)
        self.event = event

    def __reduce__(self) -> tuple[object, ...]:
        return Way, (dict(self), self.event)


def array_at(event: Mapping[str, object], name: str) -> Array | None:
    """Return the whole array at a name of an event, or of one of its ways; None if there is none.

    Conditions on lists ask for arrays here and nowhere else. The elements of an array inside an array are elements of
    the outer one, and those at ``lines.item`` are the items of all lines. A single value is an array of one element. A
    null that is no element is none.
    """
    if isinstance(event, Way):
        event = event.event
    return event.array(name) if isinstance(event, NestedEvent) else _single(event.get(name))


def names_at(event: Mapping[str, object]) -> Collection[str]:
    """Return the names of all attributes of an event, or of the event of which this is one of the ways."""
    if isinstance(event, Way):
        event = event.event
    return event.names if isinstance(event, NestedEvent) else event.keys()


def arrays_at(events: Iterable[Mapping[str, object]], name: str) -> list[Array | None]:
    """Return what :func:`array_at` returns for each event."""
    return [array_at(event, name) for event in events]


def _single(given: object) -> Array | None:
    value = normalize(given)
    return None if value is None or is_null(value) else (value,)


def _gather(
    form: object, path: str | None, name: str, found: list[Value | None], *, inside: bool, whole: bool
) -> bool:
    """Add the elements at a name to `found`; return whether there is an array, or a value, of that name.

    The form has the values outside of arrays only if it is that of a `whole` event.
    """
    if isinstance(form, list):
        there = path == name
        for each in form:
            there |= _gather(each, path, name, found, inside=True, whole=whole)
        return there
    members = members_of(form)
    if path == name:
        value = None if members is not None else value_in(form)
        there = inside or (whole and value is not None and not is_null(value))
        if there:
            found.append(value)
        return there
    there = False
    for key, inner in (members or {}).items():
        here = key if path is None else f"{path}.{key}"
        if here == name or name.startswith(here + "."):
            there |= _gather(inner, here, name, found, inside=inside, whole=whole)
    return there


def _read_members(
    members: Mapping[str, object],
    path: str | None,
    names: Names,
    fixed: dict[str, Value],
    choices: list[Choice],
    *,
    inside: bool,
) -> None:
    for name, inner in members.items():
        at = name if path is None else f"{path}.{name}"
        if not names.leads(at):
            continue
        below = members_of(inner)
        if below is not None:
            _read_members(below, at, names, fixed, choices, inside=inside)
        elif isinstance(inner, list):
            _read_array(inner, at, names, choices)
        elif inside and at in names:
            fixed[at] = value_in(inner)


def _read_attributes(members: Mapping[str, object], path: str | None, found: dict[str, Value]) -> None:
    """Add the attributes outside of arrays, as they were given."""
    for name, inner in members.items():
        at = name if path is None else f"{path}.{name}"
        below = members_of(inner)
        if below is not None:
            _read_attributes(below, at, found)
        elif not isinstance(inner, list):
            found[at] = inner if type(inner) is int else value_in(inner)


def _read_array(array: Sequence[object], path: str | None, asked: Names, choices: list[Choice]) -> None:
    names = asked.inside
    if path is not None and not names.leads(path):
        return
    objects, single = _elements(array)
    options = []
    for members in objects:
        fixed: dict[str, Value] = {}
        inner: list[Choice] = []
        _read_members(members, path, names, fixed, inner, inside=True)
        options.append(Part(fixed, tuple(inner)))
    if found := frozenset[str]().union(*(option.names for option in options)):
        choices.append(_choice(found, options))
    if path is not None and single and path in names:
        values = {(type(value), value): value for value in map(value_in, reversed(single))}
        options = [Part({path: value}) for value in reversed(values.values())]
        choices.append(Choice(frozenset((path,)), tuple(options)))


def _elements(array: Sequence[object]) -> tuple[list[dict[str, object]], list[object]]:
    """Return the objects and the single values of an array of a form, and of the arrays in it."""
    objects: list[dict[str, object]] = []
    single: list[object] = []
    waiting = [*reversed(array)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        elif (members := members_of(each)) is not None:
            objects.append(members)
        else:
            single.append(each)
    return objects, single
