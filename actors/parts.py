"""Methods that an object delegates to one of its parts, without inheriting from it.

Rule: behaviour, signature and docstring of such a method belong to the part.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def of(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls `method` of that part, which is an attribute."""

    @wraps(method)
    def call(whole: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(whole, part), *args, **kwargs)

    return call


def async_of(
    part: str, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a coroutine function that awaits `method` of that part."""

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
