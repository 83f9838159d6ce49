"""One fake of Ray for the tests that do not start it: actors that only answer, and calls that are answered or not.

Rule: a fake actor stands for a class. It has no method that the class lacks, and a call whose arguments do not fit the
class fails. So a test that fakes an actor fails when what that actor is asked changes.
"""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import GetTimeoutError

HERE = "node-here"
"""The node of this process."""


class Call:
    """A call: what it returns or raises, and whether it is done."""

    def __init__(self, value: Any, *, done: bool = True) -> None:
        self.value, self.done = value, done


class Method:
    """A method of an actor: `answer` is what every call returns or raises, or a function of its arguments.

    `calls` are those that were made, `asked_with` their options. While it does not `answers`, calls are not done.
    """

    def __init__(self, answer: Any, of: Callable[..., Any] | None = None, *, answers: bool = True) -> None:
        self.answer, self.answers, self._of = answer, answers, of
        self.calls: list[Call] = []
        self.asked_with: list[dict[str, Any]] = []

    def options(self, **how: Any) -> "Method":
        self.asked_with.append(how)
        return self

    def remote(self, *arguments: Any) -> Any:
        if self._of is not None:
            inspect.signature(self._of).bind(None, *arguments)
        value = self.answer(*arguments) if callable(self.answer) else self.answer
        if inspect.isawaitable(value):
            return value
        self.calls.append(Call(value, done=self.answers))
        return self.calls[-1]


class Actor:
    """An actor of the class `kind`, with these methods only."""

    def __init__(self, kind: type, **answers: Any) -> None:
        self._methods = {name: Method(answer, getattr(kind, name)) for name, answer in answers.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(f"this fake does not answer {name}")
        return self._methods[name]

    @property
    def asked(self) -> list[Call]:
        """The calls of all methods."""
        return [call for method in self._methods.values() for call in method.calls]

    def fall_silent(self) -> None:
        for method in self._methods.values():
            method.answers = False

    def speak(self) -> None:
        """Answer what was asked meanwhile, and all that will be."""
        for method in self._methods.values():
            method.answers = True
        for call in self.asked:
            call.done = True


def in_turn(*answers: Any) -> Callable[..., Any]:
    """Return a method's answer that is each of these in turn, and then the last one again."""
    left = list(answers)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


class Ray:
    """What stands for `ray` in these modules. Nothing waits: how long would have been waited is in `waited`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
        self.waited: list[float | None] = []
        self.killed: list[Any] = []
        self.names: dict[str, Any] = {}
        self.known_nodes: list[dict[str, Any]] = []
        self.joined = True
        self.here = SimpleNamespace(get_node_id=lambda: HERE)
        self.util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
        for module in modules:
            monkeypatch.setattr(module, "ray", self)

    def get(self, call: Any, *, timeout: float | None = None) -> Any:
        if isinstance(call, list):
            return [self.get(each, timeout=timeout) for each in call]
        if not call.done or isinstance(call.value, GetTimeoutError):
            self.waited.append(timeout)
            raise GetTimeoutError("no answer")
        if isinstance(call.value, Exception):
            raise call.value
        return call.value

    def wait(
        self, calls: list[Call], *, num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Call], list[Call]]:
        late = [call for call in calls if not call.done]
        if late:
            self.waited.append(timeout)
        return [call for call in calls if call.done], late

    def kill(self, actor: Any, *, no_restart: bool = True) -> None:
        self.killed.append(actor)

    def get_actor(self, name: str, namespace: str | None = None) -> Any:
        if name not in self.names:
            raise ValueError("there is none")
        return self.names[name]

    def nodes(self) -> list[dict[str, Any]]:
        return self.known_nodes

    def is_initialized(self) -> bool:
        return self.joined

    def get_runtime_context(self) -> Any:
        return self.here
