"""Requests and replies on Ray: many in flight from threads and a loop, too late, refused; the example of the page.

Reference: docs/requests.md.
"""

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS, until
from rayvous.actors.clients.subscriber import Subscriber
from rayvous.protocol.errors import InputError, NotARequest, RequestTimeout


@pytest.fixture
def asked(healing: rv.Network, fresh: str) -> Iterator[Subscriber]:
    """A subscriber to requests of this test, which nobody answers yet."""
    server = healing.subscriber(fresh)
    server.subscribe(f"to = '{fresh}'")
    yield server
    healing.release(server)


def test_many_are_in_flight_and_each_gets_its_own_reply(
    healing: rv.Network, fresh: str, asked: Subscriber
) -> None:
    def serve() -> None:
        for note in asked.notifications():
            number = note.event["n"]
            healing.reply(note, {"twice": 2 * number, "good": number % 2 == 0})
            healing.reply(note, {"twice": 2 * number, "good": True})

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    before = healing.inspect.dropped_replies()

    def ask(number: int) -> int:
        event = {"to": fresh, "n": number}
        return int(
            healing.request(event, timeout_seconds=PATIENCE_SECONDS, reply_where="good").event["twice"]
        )

    async def gathered() -> list[int]:
        notes = await asyncio.gather(
            *(
                healing.request_async({"to": fresh, "n": n}, timeout_seconds=PATIENCE_SECONDS)
                for n in range(20, 40)
            )
        )
        return [note.event["twice"] for note in notes]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(20))) == [2 * n for n in range(20)]
    assert asyncio.run(gathered()) == [2 * n for n in range(20, 40)]
    assert healing.request({"to": fresh, "n": 50}).event["twice"] == 100
    assert healing.inspect.dropped_replies() - before > 30, "each request got two replies"
    attached = {each.name for each in healing._attached.clients if each.name.startswith("replies-")}
    assert len(attached) == 1, "one subscription for all of them"


def test_a_reply_after_the_timeout_is_dropped_and_what_is_wrong_is_refused(
    healing: rv.Network, fresh: str, asked: Subscriber
) -> None:
    before = healing.inspect.dropped_replies()
    with pytest.raises(RequestTimeout, match=r"no reply within 0\.2 s"):
        healing.request({"to": fresh}, timeout_seconds=0.2)
    with pytest.raises(RequestTimeout):
        asyncio.run(healing.request_async({"to": fresh}, timeout_seconds=0.2))
    assert list(asked.notifications(1.0)) == [], "requests expire with their timeout"
    healing.publisher(fresh).publish({"JMSDestination": healing._attached._requesting._machine.address})
    until(lambda: healing.inspect.dropped_replies() != before)
    for wrong in (0, -1.0, float("nan"), "5"):
        with pytest.raises(InputError, match="timeout_seconds"):
            healing.request({"to": fresh}, timeout_seconds=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="JMSReplyTo"):
        healing.request({"JMSReplyTo": "me"})
    with pytest.raises(InputError, match="column 4"):
        healing.request({"to": fresh}, reply_where="n >")
    healing.publisher(f"{fresh}-plain").publish({"to": fresh, "n": 1})
    with pytest.raises(NotARequest, match="JMSReplyTo"):
        healing.reply(next(asked.notifications(PATIENCE_SECONDS)), {"n": 1})


def test_the_examples_of_the_page_run_as_they_stand(
    healing: rv.Network, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(rv.__file__).parent / "docs" / "requests.md"
    found = re.findall(r"```(?:python|text)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for code, said in zip(found[::2], found[1::2], strict=True):
        exec(code, {})
        lines = capsys.readouterr().out.splitlines(keepends=True)
        assert "".join(line for line in lines if "(raylet)" not in line) == said
