"""Methods that an object has of one of its parts, without being a kind of it.

Rule: what such a method does, its signature and its docstring stand with the part.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def of(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that does what `method` of that part does, which is an attribute."""

    @wraps(method)
    def call(whole: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(whole, part), *args, **kwargs)

    return call


def async_of(
    part: str, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a coroutine function that does what `method` of that part does."""

    @wraps(method)
    async def call(whole: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await method(getattr(whole, part), *args, **kwargs)

    return call


def later_of(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[..., Coroutine[Any, Any, R]]:
    """Return a coroutine function that calls `method` of that part, an ordinary method."""

    @wraps(method)
    async def call(whole: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(whole, part), *args, **kwargs)

    return call
