"""A survey goes on without hosts that do not answer for as long as a client would wait, and takes them back.

Reference: promise 6; docs/decisions/0094-a-node-is-noticed-by-its-fellows.md.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network import hosts as hosts_file
from rayvous.actors.network.hosts import Hosts
from rayvous.protocol.messages.recovery import Recovery


class Answer:
    """A call: what it returns, once it is answered."""

    def __init__(self, value: Any, *, done: bool = True) -> None:
        self.value, self.done = value, done


class Host:
    """Stands for an actor; `answers` says whether its calls are answered."""

    def __init__(self, broker: int) -> None:
        self.answers, self.asked = True, list[Answer]()
        self.survey = SimpleNamespace(remote=lambda: self.call({broker: {"broker": broker}}))
        self.quiet = SimpleNamespace(remote=lambda: self.call(broker))

    def call(self, value: Any) -> Answer:
        self.asked.append(Answer(value, done=self.answers))
        return self.asked[-1]


class Ray:
    """Stands for ray: whoever waits for what is not answered gives up at once, and it is noted for how long."""

    def __init__(self) -> None:
        self.waited = list[float]()

    def get(self, call: Answer, timeout: float | None = None) -> Any:
        assert call.done, "nobody would answer"
        return call.value

    def wait(
        self, calls: list[Answer], num_returns: int, timeout: float
    ) -> tuple[list[Answer], list[Answer]]:
        late = [call for call in calls if not call.done]
        if late:
            self.waited.append(timeout)
        return [call for call in calls if call.done], late


def test_who_is_silent_is_left_out_and_asked_again_when_it_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray, well, mute = Ray(), Host(0), Host(1)
    monkeypatch.setattr(hosts_file, "ray", ray)
    found = {0: well, 1: mute}
    recovery = Recovery.for_tests()
    directory: Any = SimpleNamespace(
        name="net", hosts=dict(found), recovery=recovery, positions=[SimpleNamespace(broker=b) for b in found]
    )
    hosts = Hosts(directory, SimpleNamespace(hosts=SimpleNamespace(remote=lambda: Answer(found))))
    assert sorted(hosts.survey()) == [0, 1] and not ray.waited
    mute.answers = False
    assert sorted(hosts.survey()) == [0]
    assert ray.waited == [recovery.client_patience_seconds]
    asked = len(mute.asked)
    assert hosts.ask("quiet") == [0] and sorted(hosts.survey()) == [0]
    assert ray.waited[1:] == [0], "it is not waited for again"
    assert len(mute.asked) == asked and hosts.hosts() == [well]
    mute.answers = mute.asked[-1].done = True
    assert sorted(hosts.survey()) == [0, 1] and hosts.hosts() == [well, mute]
