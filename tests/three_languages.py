"""Strategies of filters in three languages, and of events that are asked about."""

from collections.abc import Callable
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any, NamedTuple

import rayvous as rv
from hypothesis import strategies as st
from rayvous.protocol.values import NULL
from rayvous.routing.filters.printing import literal_text, string_text
from rayvous.routing.language.in_case import escaped
from rayvous.routing.language.predicates import Predicate


class Said(NamedTuple):
    """One condition, in the three languages; in a pattern it is one alternative of its attribute."""

    text: str
    json: Any
    python: Predicate


NAMES = ["a", "b", "o.tier", "o.lines.item", "tags"]
QUOTED = {"tags": '"tags"'}
TEXTS = ["", "x", "xy", "X", "it's", "x%y", "10.1.0.1", "--", "é"]
NUMBERS = [0, 1, -5, 2.5, 10**12]
SCALARS = st.sampled_from([*TEXTS, *NUMBERS, True, False])
texts, numbers = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)


def listed(values: list[Any]) -> str:
    return ", ".join(map(literal_text, values))


ESC = "ESCAPE '\\'"
MIXED = st.lists(SCALARS, min_size=1, max_size=3)
GROUPED = st.lists(texts, min_size=1, max_size=3) | st.lists(numbers, min_size=1, max_size=3)
COMPARISONS: dict[str, Callable[[Any, Any], Predicate]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq}


def like(text: str, *, before: str = "%") -> str:
    return string_text(before + escaped(text) + before)


def leaves(name: str) -> st.SearchStrategy[Said]:
    a, n = rv.attr(name), QUOTED.get(name, name)

    def compared(op: str, value: Any) -> Said:
        return Said(f"{n} {op} {literal_text(value)}", {"numeric": [op, value]}, COMPARISONS[op](a, value))

    def other_prefix(some: list[str]) -> Said:
        text = " OR ".join(f"{n} PREFIX {string_text(t)}" for t in some)
        python = ~reduce(or_, [a.prefix(t) for t in some])
        return Said(f"NOT ({text})", {"anything-but": {"prefix": some}}, python)

    def wild(t: str) -> Said:
        return Said(f"{n} LIKE {like(t)} {ESC}", {"wildcard": f"*{t}*"}, a.like(f"%{escaped(t)}%", "\\"))

    def any_case(t: str) -> Said:
        text = f"{n} ILIKE {like(t, before='')} {ESC}"
        return Said(text, {"equals-ignore-case": t}, a.ilike(escaped(t), "\\"))

    def elements(word: str, values: list[Any]) -> Said:
        python = {"all": a.contains_all, "any": a.contains_any, "none": a.contains_none}[word](values)
        return Said(f"{n} CONTAINS {word} ({listed(values)})", {f"contains-{word}": values}, python)

    def size(op: str, count: int) -> Said:
        return Said(f"SIZE({n}) {op} {count}", {"size": [op, count]}, COMPARISONS[op](a.size(), count))

    return st.one_of(
        texts.map(lambda t: Said(f"{n} = {string_text(t)}", t, a == t)),
        numbers.map(lambda v: Said(f"{literal_text(v)} = {n}", v, a == v)),
        st.booleans().map(lambda v: Said(n if v else f"{n} = FALSE", v, a == v)),
        st.just(Said(f"{n} IS NULL", None, a.is_null())),
        st.just(Said(f"{n} IS NOT NULL", {"exists": True}, ~a.is_null())),
        texts.map(lambda t: Said(f"{n} PREFIX {string_text(t)}", {"prefix": t}, a.prefix(t))),
        texts.map(lambda t: Said(f"{n} SUFFIX {string_text(t)}", {"suffix": t}, a.suffix(t))),
        texts.map(wild),
        texts.map(any_case),
        st.just(Said(f"{n} CIDR '10.0.0.0/8'", {"cidr": "10.0.0.0/8"}, a.cidr("10.0.0.0/8"))),
        st.builds(compared, st.sampled_from([*COMPARISONS]), numbers),
        GROUPED.map(lambda v: Said(f"{n} NOT IN ({listed(v)})", {"anything-but": v}, ~a.isin(v))),
        st.lists(texts, min_size=1, max_size=2).map(other_prefix),
        st.builds(elements, st.sampled_from(["all", "any", "none"]), MIXED),
        st.lists(SCALARS, max_size=3).map(
            lambda v: Said(f"{n} = ARRAY[{listed(v)}]", {"exactly": v}, a == v)
        ),
        st.builds(size, st.sampled_from([*COMPARISONS]), st.integers(0, 3)),
    )


def alternatives(name: str) -> st.SearchStrategy[Said]:
    def joined(some: list[Said]) -> Said:
        text = " OR ".join(said.text for said in some)
        python = reduce(or_, [said.python for said in some])
        return Said(f"({text})", {name: [said.json for said in some]}, python)

    return st.lists(leaves(name), min_size=1, max_size=2).map(joined)


def nested(pattern: dict[str, Any]) -> dict[str, Any]:
    """Return a pattern with ``o.tier`` inside an object, where no other name is inside it."""
    inside = [name for name in pattern if name.startswith("o.")]
    if len(inside) != 1:
        return pattern
    (name,) = inside
    return {key: value for key, value in pattern.items() if key != name} | {"o": {name[2:]: pattern[name]}}


def conjunctions(inner: st.SearchStrategy[Said] | None) -> st.SearchStrategy[Said]:
    def joined(some: list[Said]) -> Said:
        pattern: dict[str, Any] = {}
        for said in some:
            pattern |= said.json
        return Said(
            " AND ".join(s.text for s in some), nested(pattern), reduce(and_, [s.python for s in some])
        )

    fields = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).flatmap(
        lambda names: st.tuples(*map(alternatives, names)).map(list)
    )
    if inner is None:
        return fields.map(joined)

    def chosen(some: list[Said]) -> Said:
        text = " OR ".join(f"({said.text})" for said in some)
        return Said(
            f"({text})", {"$or": [said.json for said in some]}, reduce(or_, [said.python for said in some])
        )

    branches = st.lists(inner, min_size=1, max_size=2).map(chosen)
    return st.tuples(fields, branches).map(lambda pair: joined([*pair[0], pair[1]]))


SAID = st.sampled_from(NAMES).flatmap(alternatives) | conjunctions(None) | conjunctions(conjunctions(None))
ELEMENTS = SCALARS | st.just(NULL)
VALUES = ELEMENTS | st.lists(ELEMENTS, max_size=3)


def orders(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return events that have all that filters name, or some of it."""
    line = st.fixed_dictionaries({}, optional={"item": values})
    parts = {"tier": values, "lines": st.lists(line, max_size=2)}
    inside = st.fixed_dictionaries(parts) | st.fixed_dictionaries({}, optional=parts)
    names = {"a": values, "b": values, "tags": values, "o": inside}
    return st.fixed_dictionaries(names) | st.fixed_dictionaries({}, optional=names)


RAW = orders(VALUES)
