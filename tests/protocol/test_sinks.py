"""The configuration of a sink is checked before anything is started."""

from dataclasses import replace

import pytest
from rayvous.actors.network.directory import kind_of, network_of_actor, sink_name
from rayvous.protocol.errors import InputError
from rayvous.protocol.sinks import SinkConfig, shown

GOOD = SinkConfig("lake-1.x", "/data/lake", "x > 0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a/b"}, {"name": "x" * 65}, {"name": 3}, {"name": ".x"}, {"target": ""}, {"selector": 7},
        {"format": "csv"}, {"partition": "minute"}, {"roll_seconds": 0}, {"roll_seconds": float("nan")},
        {"roll_events": 0}, {"roll_events": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        replace(GOOD, **wrong).validate()


def test_what_is_right_is_returned_and_its_actor_is_one_of_the_network() -> None:
    assert GOOD.validate() is GOOD
    name = sink_name("flights:2", GOOD.name)
    assert (network_of_actor(name), kind_of(name)) == ("flights:2", "sink")


def test_what_may_be_a_credential_is_not_shown() -> None:
    assert shown("s3://key:w%2Frd@b/x") == "s3://***@b/x"
    assert shown("s3://key:word@b/x?region=r&secret=s") == "s3://***@b/x?region=***&secret=***"
    assert shown("s3://b/x") == "s3://b/x" and shown("/data/a@b?c=d") == "/data/a@b?c=d"
    other = replace(GOOD, target="s3://key:word@b/x", roll_events=5)
    assert (
        GOOD.beside(other)
        == "target '/data/lake' instead of 's3://***@b/x', roll_events 1000000 instead of 5"
    )
