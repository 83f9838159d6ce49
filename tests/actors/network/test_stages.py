"""What a user sees while a network starts."""

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network.stages import BROKERS, RAY, check_progress, told
from rayvous.protocol.errors import InputError


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Seen:
    """Records what it is shown."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, int]] = []

    def show(self, name: str, done: int, total: int) -> None:
        self.said.append((name, done, total))


def start(progress: Any) -> None:
    with told(progress) as stages:
        stages.show(RAY, 0, 1)
        stages.show(RAY, 1, 1)
        for ready in range(4):
            stages.show(BROKERS, ready, 3)


def test_nobody_is_shown_anything_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    start(None)
    start(False)
    assert capsys.readouterr() == ("", "")


def test_a_log_has_lines_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    start(True)
    said = capsys.readouterr()
    assert said.err.splitlines() == ["starting Ray", *(f"brokers ready: {ready} of 3" for ready in range(4))]
    assert said.out == ""


@pytest.mark.parametrize(("progress", "shown"), [(None, True), (True, True), (False, False)])
def test_a_terminal_has_words(monkeypatch: pytest.MonkeyPatch, progress: Any, shown: bool) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    start(progress)
    assert ("brokers ready: 3 of 3" in terminal.getvalue()) is shown


def test_a_notebook_has_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", shell)  # type: ignore[arg-type]
    start(None)
    lines = [line.rstrip() for line in capsys.readouterr().out.split("\r")]
    assert lines[1] == "starting Ray" and lines[-1].startswith("brokers ready: 3 of 3, ")
    assert len(lines) == 7


def test_a_function_is_told_of_the_brokers_only() -> None:
    calls: list[tuple[int, int]] = []
    start(lambda ready, total: calls.append((ready, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_whoever_shows_stages_is_told_all() -> None:
    seen = Seen()
    start(seen)
    assert seen.said == [(RAY, 0, 1), (RAY, 1, 1), *((BROKERS, ready, 3) for ready in range(4))]


def test_what_cannot_be_told_is_refused() -> None:
    for progress in (None, True, False, print, Seen()):
        check_progress(progress)
    with pytest.raises(InputError, match="progress is 'loud'"):
        check_progress("loud")  # type: ignore[arg-type]
