"""Construction of conditions during parsing of a selector: one method per rule of the grammar.

Rules
-----
* The grammar does not distinguish conditions from values. This module checks that each part is what its place
  requires, and otherwise rejects it with the position of its first token.
* Errors that a condition raises get a position as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ...protocol.errors import FilterTooComplex, SelectorError
from ...protocol.values import Value
from . import predicates as p
from . import relations as r
from .cesql import expression_of
from .conditions import MIRRORED
from .expressions import Expression, Literal, Ref, Size, arithmetic, negative, positive
from .in_case import InCase
from .lists import QUANTIFIERS
from .literals import at, read_number, read_timestamp, unquoted

if TYPE_CHECKING:
    from lark import Token, Transformer

__all__ = ["Part", "builder"]

T = TypeVar("T")


class Part(NamedTuple):
    """The meaning of a part of the text, its first token, and its text if it is names joined by hyphens."""

    says: p.Predicate | Expression | InCase
    at: Token
    written: str = ""

    @property
    def is_hyphenated(self) -> bool:
        """Whether it was written like a name with a hyphen in it, and so is a subtraction."""
        return "-" in self.written

    @property
    def hint(self) -> str:
        """What to write for an attribute of that name."""
        name = self.written
        return (
            f' ({name} is a subtraction; for an attribute of that name write "{name}")' if "-" in name else ""
        )


_TRUTHS: Final = {"TRUE": True, "FALSE": False, "UNKNOWN": None}
_TEXTS: Final[dict[str, Callable[[str, str], p.Predicate]]] = {
    "PREFIX": p.Prefix,
    "SUFFIX": p.Suffix,
    "CONTAINS": p.Contains,
    "CIDR": p.Cidr,
}


def _made(token: Token, make: Callable[..., T], *arguments: object, hint: str = "") -> T:
    """Call `make`; an error gets the position of `token`, and a hint."""
    try:
        return make(*arguments)
    except (SelectorError, FilterTooComplex) as error:
        at(token, f"{error}{hint}")


def condition(part: Part) -> p.Predicate:
    """Return the condition of a part: a name alone is a boolean attribute."""
    match part.says:
        case p.Predicate():
            return part.says
        case Ref(name):
            return p.Compare(name, "=", True)
        case Literal(bool() as truth):
            return p.TRUE if truth else p.FALSE
        case _:
            return at(part.at, f"a value is no condition: compare it with something{part.hint}")


def value(part: Part) -> Expression:
    """Return the value of a part."""
    if isinstance(part.says, p.Predicate):
        at(part.at, "a condition is no value: it can be neither compared nor calculated with")
    if isinstance(part.says, InCase):
        at(
            part.at,
            "UPPER and LOWER are compared with strings: with =, <>, IN, LIKE, PREFIX, SUFFIX or CONTAINS",
        )
    return part.says


def subject(part: Part) -> tuple[Expression, Callable[[p.Predicate], p.Predicate]]:
    """Return the subject of a condition, and the function that converts the condition to upper or lower case."""
    if isinstance(part.says, InCase):
        return Ref(part.says.name), part.says.of
    return value(part), _as_it_is


def _judged(part: Part) -> p.Predicate | Expression:
    return part.says if isinstance(part.says, p.Predicate) else value(part)


def _as_it_is(made: p.Predicate) -> p.Predicate:
    return made


def builder(*, strict: bool) -> Transformer[Token, p.Predicate]:
    """Return the parser's transformer; if not `strict`, a condition that can never be true is false, not an error."""
    from lark import Transformer, v_args

    @v_args(inline=True)
    class Builder(Transformer["Token", p.Predicate]):
        def start(self, whole: Part | None) -> p.Predicate:
            return p.TRUE if whole is None else condition(whole)

        def any_of(self, *parts: object) -> Part:
            return _joined(parts, p.Or)

        def all_of(self, *parts: object) -> Part:
            return _joined(parts, p.And)

        def negated(self, token: Token, part: Part) -> Part:
            return Part(_made(token, p.Not, condition(part)), token)

        def compare(self, left: Part, op: Token, right: Part) -> Part:
            sign = "<>" if op == "!=" else str(op)
            if isinstance(right.says, InCase):
                left, right, sign = right, left, MIRRORED.get(sign, sign)
            about, in_case = subject(left)
            made = _made(
                op,
                partial(r.comparison, strict=strict),
                sign,
                about,
                value(right),
                hint=left.hint or right.hint,
            )
            return Part(_made(op, in_case, made), left.at)

        def between(self, part: Part, negation: Token | None, word: Token, *rest: Part) -> Part:
            low, _, high = rest
            make = partial(r.between, strict=strict)
            return _perhaps(
                negation, part, _made(word, make, value(part), value(low), value(high), hint=part.hint)
            )

        def one_of(self, part: Part, negation: Token | None, word: Token, *items: Part) -> Part:
            make = partial(r.one_of, strict=strict)
            about, in_case = subject(part)
            made = _made(word, make, about, [value(item) for item in items], hint=part.hint)
            return _perhaps(negation, part, _made(word, in_case, made))

        def like(
            self, part: Part, negation: Token | None, word: Token, pattern: Token, *rest: Token | None
        ) -> Part:
            _, escape = rest
            character = None if escape is None else unquoted(escape)

            def make(name: str) -> p.Predicate:
                kind = p.Like if word.type == "LIKE" else p.ILike
                if strict or character is None or len(character) != 1:
                    return kind(name, unquoted(pattern), character)
                return kind(name, p.plain_pattern(unquoted(pattern), character), "\\")

            about, in_case = subject(part)
            made = _made(escape or pattern, _text_condition, about, make, hint=part.hint)
            return _perhaps(negation, part, _made(word, in_case, made))

        def text(self, part: Part, negation: Token | None, word: Token, text: Token) -> Part:
            def make(name: str) -> p.Predicate:
                return _TEXTS[word.type](name, unquoted(text))

            about, in_case = subject(part)
            made = _made(text, _text_condition, about, make, hint=part.hint)
            return _perhaps(negation, part, _made(word, in_case, made))

        def elements(
            self, part: Part, negation: Token | None, word: Token, which: Token, *items: Part
        ) -> Part:
            made = _made(which, QUANTIFIERS[which.type], _array(part), _literals(word, items))
            return _perhaps(negation, part, made)

        def is_list(self, part: Part, op: Token, word: Token, *items: Part | None) -> Part:
            if op not in ("=", "<>", "!="):
                at(op, "lists have no order: use = or <>")
            made = _made(word, p.IsList, _array(part), _literals(word, items))
            return Part(made if op == "=" else _made(op, p.Not, made), part.at)

        def is_(self, part: Part, _is: Token, negation: Token | None, word: Token) -> Part:
            if word.type in ("NULL", "MISSING") and part.is_hyphenated:
                at(
                    part.at,
                    f'{part.written} is a subtraction: for an attribute of that name write "{part.written}"',
                )
            if word.type == "NULL":
                return _perhaps(negation, part, _made(word, r.no_value, _judged(part)))
            if word.type == "MISSING":
                if not isinstance(part.says, Ref):
                    at(part.at, "only an attribute can be missing: write IS NULL for a value that is none")
                return _perhaps(negation, part, _made(word, p.IsMissing, part.says.name))
            made = _made(word, p.IsTruth, condition(part), _TRUTHS[word.type])
            return _perhaps(negation, part, made)

        def calculate(self, left: Part, op: Token, right: Part) -> Part:
            made = _made(op, arithmetic, str(op), value(left), value(right))
            return Part(made, left.at, _hyphenated(left, op, right))

        def signed(self, sign: Token, part: Part) -> Part:
            make = negative if sign == "-" else positive
            return Part(_made(sign, make, value(part)), sign)

        def cased(self, word: Token, part: Part) -> Part:
            if not isinstance(part.says, Ref):
                at(part.at, f"{word.upper()} needs an attribute")
            return Part(InCase(part.says.name, word.type == "UPPER"), word)

        def size(self, word: Token, part: Part) -> Part:
            return Part(_made(word, Size, _array(part)), word)

        def only(self, word: Token, *names: Part | None) -> Part:
            found = [part.says.name for part in names if part is not None]  # type: ignore[union-attr]  # a name
            return Part(_made(word, p.Only, tuple(found)), word)

        def name(self, token: Token) -> Part:
            if not strict and token.type == "ESCAPE":
                at(token, "ESCAPE is reserved in JMS: put it in double quotes")
            if token.type == "QUOTED":
                return Part(_made(token, Ref, unquoted(token)), token)
            return Part(_made(token, Ref, str(token)), token, str(token))

        def boolean(self, token: Token) -> Part:
            return Part(Literal(token.type == "TRUE"), token)

        def number(self, *tokens: Token) -> Part:
            written = str(tokens[0]) if len(tokens) == 1 else ""
            return Part(Literal(read_number(tokens[-1], negative=tokens[0] == "-")), tokens[0], written)

        def string(self, token: Token) -> Part:
            return Part(Literal(unquoted(token)), token)

        def cesql(self, word: Token, token: Token) -> Part:
            return Part(p.CloudSql(_made(token, expression_of, unquoted(token))), word)

        def timestamp(self, word: Token, token: Token) -> Part:
            return Part(Literal(read_timestamp(token)), word)

    return Builder()


def _joined(parts: Sequence[Any], kind: type[p.And] | type[p.Or]) -> Part:
    return Part(_made(parts[1], kind, tuple(condition(part) for part in parts[::2])), parts[0].at)


def _hyphenated(left: Part, op: Token, right: Part) -> str:
    """Return the text of a subtraction that was written without blanks, like a name; or the empty text."""
    end = (left.at.start_pos or 0) + len(left.written)
    tight = end == op.start_pos and op.end_pos == right.at.start_pos
    if op != "-" or not tight or not left.written or not right.written or isinstance(left.says, Literal):
        return ""
    return f"{left.written}-{right.written}"


def _array(part: Part) -> str:
    """Return the name of the attribute that a condition on a whole array is about."""
    if not isinstance(part.says, Ref):
        at(part.at, f"CONTAINS ALL, ANY and NONE, ARRAY and SIZE need an attribute{part.hint}")
    return part.says.name


def _literals(word: Token, items: Sequence[Part | None]) -> tuple[Value, ...]:
    found: list[Value] = []
    for item in items:
        if item is None:  # an empty list
            continue
        if not isinstance(item.says, Literal):
            at(item.at, f"{word.upper()} needs strings, numbers, truth values or timestamps in its list")
        found.append(item.says.value)
    return tuple(found)


def _perhaps(negation: Token | None, part: Part, made: p.Predicate) -> Part:
    return Part(made if negation is None else _made(negation, p.Not, made), part.at)


def _text_condition(value: Expression, make: Callable[[str], p.Predicate]) -> p.Predicate:
    """Return a condition on a string; `make` makes the condition for an attribute name."""
    if isinstance(value, Ref):
        return make(value.name)
    condition = make("text")
    if isinstance(value, Literal) and isinstance(value.value, str):
        return p.Constant(p.evaluate(condition, {"text": value.value}))
    raise SelectorError(
        "LIKE, ILIKE, PREFIX, SUFFIX, CONTAINS and CIDR need a string or an attribute before them"
    )
