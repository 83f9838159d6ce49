"""What the page is sent: rates, the fullest books and what happened; all watchers share one look."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace

from rayvous.actors.network.game_days import Note
from rayvous.gateway.ui.watch import BOOKS_MAX, ENTRIES_MAX, Timeline, Watch, frame_of
from rayvous.protocol.durables import DurableStatus
from rayvous.protocol.errors import BrokerUnavailable


def said(timeline):
    return [(entry.text, entry.mood) for entry in timeline.entries]


def test_what_differs_between_looks_is_told_and_how_long_healing_took(look):
    timeline = Timeline()
    timeline.look(look(0, {"role": "REB"}, {}), 100.0)
    assert said(timeline) == [], "nothing has happened yet"
    timeline.look(look(1, {"role": "REB", "state": "dead"}, {}, problems=["no root"]), 101.0)
    timeline.look(look(2, {"state": "dead"}, {"role": "REB"}, {"state": "silent"}), 103.5)
    timeline.look(look(3, {"state": "dead"}, {"role": "REB"}), 104.5)
    assert said(timeline) == [
        ("broker 0 is dead", "bad"),
        ("healing: no root", "bad"),
        ("broker 1 is REB now, was NEB", ""),
        ("broker 2 came", "good"),
        ("broker 2 left", ""),
        ("whole without broker 0 after 3.5 s", "good"),
    ]
    timeline.look(look(4, {}, {"role": "REB"}), 105.0)
    assert said(timeline)[-1] == ("broker 0 is back", "good")


def test_durable_subscribers_are_shown_with_how_far_they_are_behind(look):
    behind = DurableStatus("al\x1bice", 1, False, None, 7, 100, 3.0, ("TRUE",))
    (shown,) = frame_of(replace(look(0, {}), durables=(behind,)), None, 1.0)["durables"]
    assert shown == {
        "name": "al\\x1bice", "broker": 1, "attached": False, "away_seconds": None, "events": 7, "seconds": 3.0,
    }  # fmt: skip


def test_what_heals_between_two_looks_is_told_to_have_healed_within_that_time(look):
    timeline = Timeline()
    for at, broker in enumerate([{}, {"state": "dead"}, {"state": "dead"}, {}, {}]):
        timeline.look(look(at, broker, {}), 100.0 + 0.5 * at)
    assert said(timeline) == [
        ("broker 0 is dead", "bad"),
        ("whole without broker 0 after 0.5 s", "good"),
        ("broker 0 is back", "good"),
    ]


def test_what_a_game_day_does_is_told_once_each(look):
    timeline, notes = Timeline(), (Note(90.0, "begins"), Note(99.0, "fault 1: kill broker 0", "bad"))
    timeline.look(replace(look(0, {}), notes=notes[:1]), 100.0)
    timeline.look(replace(look(1, {}), notes=notes), 101.0)
    assert said(timeline) == [("game day: begins", ""), ("game day: fault 1: kill broker 0", "bad")]
    assert [entry.at for entry in timeline.entries] == [90.0, 99.0]


def test_what_happened_is_kept_up_to_a_limit(look):
    timeline = Timeline()
    for at in range(ENTRIES_MAX + 20):
        timeline.look(look(at, {"state": "dead" if at % 2 else "alive"}), float(at))
    assert len(timeline.entries) == ENTRIES_MAX


def test_a_frame_has_rates_of_brokers_and_links_and_is_json(look):
    before = look(0, {"events": 10, "sent": {1: 5, -1: 0}}, {"events": 0})
    now = look(2, {"events": 30, "sent": {1: 25, -1: 8}}, {"events": 2, "sent": {0: 4}}, {"state": "dead"})
    frame = frame_of(now, before, 7.0)
    assert frame["links"] == [(0, 1, 10.0), (0, -1, 4.0), (1, 0, 2.0)]
    assert [one["in"] for one in frame["brokers"]] == [10.0, 1.0, None]
    assert frame["events_per_second"] == 11.0 and frame["state"] == "whole without broker 2"
    assert frame["latency_seconds"]["p50"] < frame["latency_seconds"]["p99"]
    assert json.loads(json.dumps(frame, allow_nan=False))["at"] == 7.0
    assert frame_of(now, None, 7.0)["links"] == [], "there is no rate yet"
    assert [one["name"] for one in frame["brokers"]] == ["NEB 0", "NEB 1", "2"]
    assert "B0" not in json.dumps(frame), "a label is a place of the beginning"


def test_what_others_wrote_is_sent_without_controls(look):
    """The page shows text as text; but writing direction and line ends would make it look like another one."""
    frame = frame_of(look(0, {}, problems=["subscriber 'a\n\u202eb\x1b[2J' waits"]), None, 7.0)
    assert frame["problems"] == ["subscriber 'a\\n\\u202eb\\x1b[2J' waits"]
    timeline = Timeline()
    timeline.look(look(0, {}, problems=["\x9b31m"]), 1.0)
    assert said(timeline) == [("healing: \\x9b31m", "bad")]


def test_the_fullest_books_come_first_and_what_has_no_limit_is_left_out(look):
    books = {
        "broker": 0,
        "filters": 3,
        "cpu": (90.0, 100.0),
        "memory": (10, 200),
        "bandwidth": (5.0, float("inf")),
    }
    rows = frame_of(look(0, {"books": books}, *({"books": books} for _ in range(BOOKS_MAX))), None, 0.0)[
        "books"
    ]
    assert len(rows) == BOOKS_MAX and {row["of"] for row in rows} == {"cpu"}
    assert {row["of"] for row in frame_of(look(0, {"books": books}), None, 0.0)["books"]} == {"cpu", "memory"}


class Looks:
    """Counts how often the status of the network is read."""

    def __init__(self, look):
        self.count, self.broken, self._look = 0, False, look

    def __call__(self):
        self.count += 1
        if self.broken:
            raise BrokerUnavailable("the rendezvous point does not answer")
        return self._look(self.count, {"events": self.count})


def test_all_who_watch_share_a_look_and_nobody_looks_when_nobody_watches(look, run):
    async def work():
        looks = Looks(look)
        watch = Watch(looks, every_seconds=0.01)
        async with aclosing(watch.frames()) as one, aclosing(watch.frames()) as other:
            assert (await anext(one))["at"] == (await anext(other))["at"]
            for _ in range(3):
                await anext(one)
            seen = (await anext(other))["brokers"]  # the slow one gets the newest, and has missed some
            assert looks.count >= 4 and seen
        ended = looks.count
        await asyncio.sleep(0.05)  # nothing should happen
        assert looks.count <= ended + 1

    run(work())


def test_a_network_that_does_not_answer_is_said_to_be_so_and_watched_on(look, run):
    async def work():
        looks = Looks(look)
        async with aclosing(Watch(looks, every_seconds=0.001).frames()) as frames:
            assert (await anext(frames))["state"] == "healthy"
            looks.broken = True
            while (frame := await anext(frames))["state"] == "healthy":
                pass
            assert frame["state"] == "unseen" and "does not answer" in frame["problems"][0]
            assert frame["brokers"], "what was seen last stays"
            looks.broken = False
            while (await anext(frames))["state"] == "unseen":
                pass

    run(work())
