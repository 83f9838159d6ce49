"""Selectors compared with SQL: an independent engine (SQLite) evaluates each random condition for each event.

Each condition is generated both as a selector and as SQL. In SQL a second column beside each value holds its
type group, and a comparison of values of two groups is NULL, or 0 in the JMS dialect.

Reference: JMS 1.1, section 3.8.1.2 (its three-valued logic is that of SQL-92).
"""

import random
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from draws import slow, thorough
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.language.predicates import compile_predicate, evaluate
from rayvous.routing.language.selectors import Dialect, parse_selector

NAMES = ("a", "b", "c", "d")
NUMBERS = (-2, -1, 0, 1, 2, 3, 0.5, 2.0, -0.5, 1e300, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", "a", "ab", "abc", "b", "B", "a%c", "a_c", "é", "it's", "\U0001f600")
PATTERNS = ("a%", "%c", "_", "a_c", "%b%", "", "a!%%", "%!_%", "é")
OPS = ("=", "<>", "!=", "<", "<=", ">", ">=")


class Said(NamedTuple):
    """A condition or a value in both languages, and the attributes that it uses."""

    selector: str
    sql: str
    names: tuple[str, ...] = ()


class Writer:
    """Generates random conditions."""

    def __init__(self, seed: int, dialect: Dialect) -> None:
        self.rng = random.Random(seed)
        self.jms = dialect == "jms"

    def condition(self, depth: int = 0) -> Said:
        rng = self.rng
        if depth > 2 or rng.random() < 0.35:
            return self.leaf()
        kind = rng.random()
        if kind < 0.2:
            term = self.condition(depth + 1)
            return Said(f"NOT ({term.selector})", f"(NOT {term.sql})")
        if kind < 0.3:
            term, test = self.condition(depth + 1), rng.choice(("TRUE", "FALSE", "UNKNOWN"))
            word = rng.choice(("IS", "IS NOT"))
            return Said(
                f"({term.selector}) {word} {test}", f"({term.sql} {word} {test.replace('UNKNOWN', 'NULL')})"
            )
        word = rng.choice((" AND ", " OR "))
        terms = [self.condition(depth + 1) for _ in range(rng.randint(2, 3))]
        return Said(word.join(f"({t.selector})" for t in terms), "(" + word.join(t.sql for t in terms) + ")")

    def leaf(self) -> Said:
        name = self.rng.choice(NAMES)
        draw = self.rng.choice(
            (self.compared, self.compared, self.related, self.related, self.ranged, self.texted)
        )
        if self.rng.random() < 0.1:
            word = self.rng.choice(("IS NULL", "IS NOT NULL"))
            return Said(f"{name} {word}", f"({name}_group {word})")
        said = draw(name)
        missing = " OR ".join(f"{each}_group IS NULL" for each in said.names)
        sql = f"CASE WHEN {missing} THEN NULL ELSE COALESCE({said.sql}, 0) END" if self.jms else said.sql
        return Said(said.selector, f"({sql})")

    def compared(self, name: str) -> Said:
        op, (text, sql, group) = self.rng.choice(OPS), self.literal()
        condition = f"CASE WHEN {name}_group = '{group}' THEN {name} {op} {sql} END"
        if self.rng.random() < 0.3:
            mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
            return Said(f"{text} {mirrored} {name}", condition, (name,))
        return Said(f"{name} {op} {text}", condition, (name,))

    def literal(self) -> tuple[str, str, str]:
        if self.rng.random() < 0.6:
            number = self.rng.choice(NUMBERS)
            written = f"{number!r}"
            if type(number) is int and number >= 0:
                written = self.rng.choice((written, hex(number), f"0{number:o}", f"{number}L"))
            # SQL has no literal for the smallest integer.
            return written, "(-9223372036854775807 - 1)" if number == -(2**63) else repr(number), "n"
        quoted = "'" + self.rng.choice(TEXTS).replace("'", "''") + "'"
        return quoted, quoted, "s"

    def related(self, name: str) -> Said:
        op, other = self.rng.choice(OPS), self.rng.choice(NAMES)
        if self.rng.random() < 0.4:
            sql = f"CASE WHEN {name}_group = {other}_group THEN {name} {op} {other} END"
            return Said(f"{name} {op} {other}", sql, (name, other))
        left, right = self.value(), self.value()
        if not left.names + right.names:
            left = Said(f"{left.selector} + {name}", f"({left.sql} + {_number(name)})", (name,))
        return Said(
            f"{left.selector} {op} {right.selector}",
            f"({left.sql} {op} {right.sql})",
            left.names + right.names,
        )

    def value(self, depth: int = 0) -> Said:
        """Generate a computed number; at the top level never an attribute alone, which may be a string."""
        if depth > 1 or self.rng.random() < 0.2:
            number = repr(self.rng.choice((1, 2, 3, 0.5, 10**18)))
            name = self.rng.choice(NAMES)
            if depth and self.rng.random() < 0.8:
                return Said(name, _number(name), (name,))
            return Said(f"({name} + {number})", f"({_number(name)} + {number})", (name,))
        op, left, right = self.rng.choice("+-*/"), self.value(depth + 1), self.value(depth + 1)
        sql = f"(CAST({left.sql} AS REAL) / {right.sql})" if op == "/" else f"({left.sql} {op} {right.sql})"
        return Said(f"({left.selector} {op} {right.selector})", sql, left.names + right.names)

    def ranged(self, name: str) -> Said:
        group = self.rng.choice("ns")
        pool: Any = NUMBERS if group == "n" else TEXTS
        values = sorted(self.rng.sample(pool, 2))
        texts = [repr(value) if group == "n" else "'" + value.replace("'", "''") + "'" for value in values]
        of_sql = [text.replace("-9223372036854775808", "(-9223372036854775807 - 1)") for text in texts]
        word = self.rng.choice(("", "NOT "))
        form = self.rng.choice(("BETWEEN {} AND {}", "IN ({}, {})"))
        condition = f"CASE WHEN {name}_group = '{group}' THEN {name} {word}{form.format(*of_sql)} END"
        if not self.jms or not word:
            return Said(f"{name} {word}{form.format(*texts)}", condition, (name,))
        positive = f"CASE WHEN {name}_group = '{group}' THEN {name} {form.format(*of_sql)} END"
        return Said(f"{name} NOT {form.format(*texts)}", f"(NOT COALESCE({positive}, 0))", (name,))

    def texted(self, name: str) -> Said:
        pattern = self.rng.choice(PATTERNS)
        condition = f"CASE WHEN {name}_group = 's' THEN {name} LIKE '{pattern}' ESCAPE '!' END"
        if self.rng.random() < 0.5:
            return Said(f"{name} LIKE '{pattern}' ESCAPE '!'", condition, (name,))
        negated = f"(NOT COALESCE({condition}, 0))" if self.jms else f"(NOT ({condition}))"
        return Said(f"{name} NOT LIKE '{pattern}' ESCAPE '!'", negated, (name,))


def _number(name: str) -> str:
    return f"CASE WHEN {name}_group = 'n' THEN {name} END"


def _events(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    values: tuple[Any, ...] = (*NUMBERS, *TEXTS, float("inf"), 3, 1, 2)
    return [{name: rng.choice(values) for name in NAMES if rng.random() < 0.8} for _ in range(30)]


def _answers(events: list[dict[str, Any]]) -> Iterator[Any]:
    """Receive SQL conditions and yield the truth value of each one for every event."""
    engine = sqlite3.connect(":memory:")
    engine.execute("PRAGMA case_sensitive_like = ON")
    engine.execute(f"CREATE TABLE events ({', '.join(f'{name}, {name}_group' for name in NAMES)})")
    for event in events:
        row = [
            (event.get(name), {str: "s", type(None): None}.get(type(event.get(name)), "n")) for name in NAMES
        ]
        engine.execute(
            f"INSERT INTO events VALUES ({', '.join('?' * 2 * len(NAMES))})",
            [x for pair in row for x in pair],
        )
    truths: Any = None
    while True:
        sql = yield truths
        truths = [
            None if t is None else bool(t)
            for (t,) in engine.execute(f"SELECT {sql} FROM events ORDER BY rowid")
        ]


def _compare(seed: int, selectors: int) -> None:
    events = _events(seed)
    batch, ask = batch_of(events), _answers(events)
    next(ask)
    decided = {True: 0, False: 0, None: 0}
    for number in range(selectors):
        dialect: Dialect = "jms" if number % 4 == 3 else "rayvous"
        said = Writer(seed * 100_000 + number, dialect).condition()
        expected = ask.send(said.sql)
        condition = parse_selector(said.selector, dialect)
        matching = [truth is True for truth in expected]
        if dialect == "rayvous":
            fast = compile_predicate(condition)
            assert [evaluate(condition, event) for event in events] == expected, said.selector
            assert [fast(event) for event in events] == expected, said.selector
        try:
            item = to_filter(condition)
        except FilterTooComplex:
            continue
        assert [item.matches(event) for event in events] == matching, (dialect, said.selector)
        assert item.evaluate_batch(batch).tolist() == matching, (dialect, said.selector)
        assert to_filter(str(item)) == item, said.selector
        for truth in expected:
            decided[truth] += 1
    assert min(decided.values()) > selectors  # all truth values occurred, and few filters were too complex


def test_selectors_mean_what_sql_means() -> None:
    _compare(1, 60)


@pytest.mark.parametrize("seed", [slow(2), thorough(3)])
def test_a_thousand_selectors_mean_what_sql_means(seed: int) -> None:
    _compare(seed, 1000)


def test_the_oracle_would_see_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rayvous.routing.language.expressions._CALCULATE", {op: lambda a, b: a for op in "+-*/"}
    )
    with pytest.raises((AssertionError, SelectorError)):
        _compare(1, 60)
