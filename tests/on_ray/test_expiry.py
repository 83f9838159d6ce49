"""Events with a time to live on Ray: to subscribers that read late, that are away, and of a group; and what is refused.

Reference: docs/expiry.md.
"""

import re
import time
from pathlib import Path

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.protocol.errors import InputError


def wait_until(moment: float) -> None:
    """Wait until the clock of this machine, by which events expire, has passed a moment."""
    while time.time() <= moment:
        time.sleep(0.01)


def test_what_is_read_after_its_time_to_live_is_dropped_and_counted(healing: rv.Network, fresh: str) -> None:
    late, durable = healing.subscriber(f"{fresh}-late"), healing.subscriber(f"{fresh}-durable", durable=True)
    for subscriber in (late, durable):
        subscriber.subscribe(f"of = '{fresh}'")
    durable.close()
    publisher = healing.publisher(fresh, ttl=600.0)
    before = sum(node.get("notes_past_ttl", 0) for node in healing.inspect.describe().nodes.values())
    for number, ttl in ((1, 0.5), (2, None), (3, 0.5), (4, 900.0)):
        publisher.publish({"of": fresh, "n": number}, ttl=ttl)
    publisher.flush()
    wait_until(time.time() + 0.6)
    notes = late.notifications(PATIENCE_SECONDS)
    got = [next(notes) for _ in range(2)]
    assert [note.event["n"] for note in got] == [2, 4] and late.past_ttl == 2
    assert [round(note.expires_at - note.published_at) for note in got if note.expires_at] == [600, 900]
    again = healing.subscriber(f"{fresh}-durable", durable=True)
    notes = again.notifications(PATIENCE_SECONDS)
    assert [next(notes).event["n"] for _ in range(2)] == [2, 4]
    nodes = healing.inspect.describe().nodes.values()
    assert sum(node["notes_past_ttl"] for node in nodes) == before + 2
    assert all("past_ttl_events" in node for node in nodes)
    again.end()
    for wrong in (0, -1.0, float("nan"), "5", 1e300):
        with pytest.raises(InputError, match="ttl"):
            publisher.publish({"of": fresh, "n": 5}, ttl=wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="ttl"):
            healing.publisher(f"{fresh}-other", ttl=wrong)  # type: ignore[arg-type]
    assert publisher.published == 4


def test_a_worker_of_a_group_gets_only_what_is_in_time(healing: rv.Network, fresh: str) -> None:
    worker = healing.subscriber(fresh, group=True)
    worker.subscribe(f"of = '{fresh}'")
    publisher = healing.publisher(fresh)
    publisher.publish_batch([{"of": fresh, "n": n} for n in (1, 2)], ttl=0.5)
    publisher.publish({"of": fresh, "n": 3}, ttl=600.0)
    publisher.flush()
    wait_until(time.time() + 0.6)
    note = next(worker.notifications(PATIENCE_SECONDS))
    assert note.event["n"] == 3
    worker.ack(note)
    worker.end()


def test_the_examples_of_the_page_run_as_they_stand(
    healing: rv.Network, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(rv.__file__).parent / "docs" / "expiry.md"
    found = re.findall(r"```(?:python|text)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for code, said in zip(found[::2], found[1::2], strict=True):
        exec(code, {})
        lines = capsys.readouterr().out.splitlines(keepends=True)
        assert "".join(line for line in lines if "(raylet)" not in line) == said
