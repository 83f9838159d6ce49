"""A value that is given later on the same event loop: whoever waits has it at once, in the same turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Later(Generic[T]):
    """A value, or an error, that is given once; what is given after that does not count.

    A future has its callbacks called in the next turn of the event loop, and a task that waits for it goes on in
    that turn. A `Later` has one callback, which `give` and `fail` call themselves. It can also be awaited.

    Attributes
    ----------
    done, error
        Whether it was given, and the error if it was one.
    explain
        What an error that is given becomes; None for itself, and once something was given.
    awaited
        Whether a task waits for it, or for what is made of it, and so goes on only in a later turn.
    """

    __slots__ = ("_of", "_then", "_value", "awaited", "done", "error", "explain")

    def __init__(self, of: Later[Any] | None = None) -> None:
        self._of = of
        self.awaited = False
        self._then: Callable[[Later[T]], None] | None = None
        self._value: T | None = None
        self.done = False
        self.error: Exception | None = None
        self.explain: Callable[[Exception], Exception] | None = None

    @property
    def value(self) -> T:
        """The value that was given."""
        return self._value  # type: ignore[return-value]

    def give(self, value: T) -> None:
        """Give the value."""
        if not self.done:
            self._value = value
            self.done = True
            then, self._then, self.explain = self._then, None, None
            if then is not None:
                then(self)

    def fail(self, error: Exception) -> None:
        """Give an error instead of the value."""
        if not self.done:
            self.done = True
            self.error = error if self.explain is None else self.explain(error)
            self._end()

    def _end(self) -> None:
        """Call what waits, and hold it no longer: this may be kept for a while after that."""
        then, self._then, self.explain = self._then, None, None
        if then is not None:
            then(self)

    def then(self, callback: Callable[[Later[T]], None]) -> None:
        """Call `callback` with this when it is done, which may be now."""
        if self.done:
            callback(self)
        else:
            self._then = callback

    def made_into(self, function: Callable[[T], U]) -> Later[U]:
        """Return what `function` makes of the value, or the error."""
        made: Later[U] = Later(self)  # not `Later[U](self)`, a call of `typing`
        self._make(made, function)
        return made

    def _make(self, made: Later[U], function: Callable[[T], U]) -> None:
        def make(given: Later[T]) -> None:
            if given.error is not None:
                made.fail(given.error)
                return
            try:
                made.give(function(given.value))
            except Exception as error:
                made.fail(error)

        self.then(make)

    def _say_awaited(self) -> None:
        self.awaited = True
        if self._of is not None:
            self._of._say_awaited()

    def __await__(self) -> Generator[None, None, T]:
        if not self.done:
            self._say_awaited()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.then(lambda _: None if future.done() else future.set_result(None))
            yield from future
        if self.error is not None:
            raise self.error
        return self.value


class Stream(Later[T]):
    """A value that is given last; before it, parts of it may be given, each of which is passed on at once."""

    __slots__ = ("_each",)

    def __init__(self, of: Later[Any] | None = None) -> None:
        super().__init__(of)
        self._each: Callable[[T], None] | None = None

    def each(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with each part that is given from now on."""
        self._each = callback

    def part(self, value: T) -> None:
        """Give a part."""
        if self._each is not None and not self.done:
            self._each(value)

    def made_into(self, function: Callable[[T], U]) -> Stream[U]:
        """Return what `function` makes of each part and of the value, or the error."""
        made: Stream[U] = Stream(self)

        def make(part: T) -> None:
            try:
                made.part(function(part))
            except Exception as error:
                made.fail(error)

        self._each = make
        self._make(made, function)
        return made

    def ending_in(self, function: Callable[[T], U]) -> Stream[T | U]:
        """Return the same parts, and then what `function` makes of the value, or the error."""
        made: Stream[T | U] = Stream(self)
        self._each = made.part
        self._make(made, function)
        return made
