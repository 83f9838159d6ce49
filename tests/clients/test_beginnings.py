"""Where in the past a subscriber begins: times and positions against a dumb reference, and what is refused."""

import random
from datetime import UTC, datetime

import pytest
from rayvous.clients.beginnings import asked_for, beginning_of, require_history
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Ticked
from rayvous.protocol.errors import InputError
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.replay.history import History

NOW = 1_000.0


def histories(rng: random.Random, forgets: bool = False) -> tuple[list[History], dict[str, list[float]]]:
    """Return three histories, and when each event of each publisher was published; publishers move between them."""
    made, published = [History(1e9, 1 << 40) for _ in range(3)], dict[str, list[float]]({"p": [], "q": []})
    now = 0.0
    for turn in range(30):
        now += rng.choice((0.0, 1.0, 5.0))
        name, history = "pq"[turn] if turn < 2 else rng.choice("pq"), rng.choice(made)
        count, first = rng.randint(1, 3), len(published[name]) + 1
        history.sees[Ticked](Ticked(now))
        history.append(name, batch_of([{}] * count, publisher=name, first_sequence=first, published_at=now))
        published[name] += [now] * count
    for history in made if forgets else ():
        history._seconds = 0.4 * now
        history.sees[Ticked](Ticked(now))
    return made, published


@pytest.mark.parametrize("seed", range(30))
def test_a_time_is_in_front_of_the_first_event_that_is_not_older(seed: int) -> None:
    rng = random.Random(f"beginnings/{seed}")
    made, published = histories(rng)
    moment = rng.uniform(-1.0, 120.0)
    asked = asked_for(moment, NOW)
    beginning = beginning_of(asked, [history.spans(asked.moment) for history in made])
    assert beginning.since == moment
    assert beginning.marks == {
        name: sum(each < moment for each in times) for name, times in published.items() if times
    }


@pytest.mark.parametrize("seed", range(30))
def test_what_was_forgotten_is_refused_and_the_oldest_is_behind_it(seed: int) -> None:
    made, published = histories(random.Random(f"beginnings/{seed}"), forgets=True)
    kept = {event for history in made for event in history.identities()}
    spans = [history.spans() for history in made]
    oldest = beginning_of(asked_for("oldest", NOW), spans).marks
    for name, times in published.items():
        there = [number for number in range(1, len(times) + 1) if (name, number) in kept]
        gone = min(there) - 1 if there else len(times)
        assert oldest[name] == gone
        if gone:
            with pytest.raises(InputError, match=f"events up to {gone} are not retained any more"):
                beginning_of(asked_for({name: gone - 1}, NOW), spans)
            moment = asked_for(times[0], NOW).moment
            with pytest.raises(InputError, match=r"older than what is retained\. Begin at='oldest'"):
                beginning_of(asked_for(moment, NOW), [history.spans(moment) for history in made])
        at = {name: len(times)}
        other = "q" if name == "p" else "p"
        now = {other: len(published[other])}
        assert beginning_of(asked_for(at, NOW), spans).marks == {**now, **at}, "the other one begins now"


@pytest.mark.parametrize(
    "moment", ["1970-01-01T00:10", "1970-01-01T01:10+01:00", datetime(1970, 1, 1, 0, 10), 600]
)
def test_a_time_without_a_zone_is_of_utc(moment: object) -> None:
    assert asked_for(moment, NOW).moment == 600.0
    assert asked_for(datetime(1970, 1, 1, 0, 10, tzinfo=UTC), NOW).moment == 600.0


@pytest.mark.parametrize(
    "at, said",
    [
        ("yesterday", "it must be a time such as"),
        (True, "it must be a time such as"),
        (None, "it must be a time such as"),
        (float("nan"), "it must be a time such as"),
        (["oldest"], "it must be a time such as"),
        (NOW + 1, "which is in the future"),
        ("9999-12-31T23:59:59", "which is in the future"),
        ({"p": -1}, "position of 'p'"),
        ({"p": "1"}, "position of 'p'"),
        ({1: 1}, "publisher"),
    ],
)
def test_what_is_no_time_and_no_position_is_refused(at: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        asked_for(at, NOW)


def test_an_unknown_publisher_and_a_number_that_is_not_published_yet_are_refused() -> None:
    made, published = histories(random.Random(1))
    spans = [history.spans() for history in made]
    with pytest.raises(
        InputError, match="no broker knows a publisher 'ghost'; those with a history are 'p', 'q'"
    ):
        beginning_of(asked_for({"ghost": 1}, NOW), spans)
    with pytest.raises(InputError, match=f"has published only {len(published['p'])} events"):
        beginning_of(asked_for({"p": 999}, NOW), spans)


@pytest.mark.parametrize(
    "features, said",
    [
        (Features(), "recovery=Recovery"),
        (Features(stores=True), "recovery=Recovery"),
        (Features(Recovery(history_seconds=600.0)), "stable=Stable"),
        (Features(Recovery(), stores=True), "history_seconds"),
    ],
)
def test_a_network_without_a_history_says_how_to_launch_one(features: Features, said: str) -> None:
    with pytest.raises(InputError, match=said):
        require_history(features)
    require_history(Features(Recovery(history_seconds=600.0), stores=True))
