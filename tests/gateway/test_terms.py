"""What clients outside Ray may ask of admission control (decision 0183), and where in the past they begin."""

import pytest
from rayvous.gateway.terms import NO_TERMS, Terms
from rayvous.protocol.errors import AccessDenied, InputError
from rayvous.protocol.gateways import AccessConfig, Principal, digest_of

ACCESS = AccessConfig(
    {"me": Principal((digest_of("t"),), "TRUE", "TRUE", priority_max=5, max_delay=True)},
    anonymous=Principal(subscribe="TRUE"),
)


def test_the_network_is_asked_for_what_a_subscription_asks_for_first(gateway, run):
    asked = [Terms(priority, 0.5) for priority in range(4)]

    async def story():
        gate = gateway(access=ACCESS)
        async with await gate.open("t") as session:
            await session.subscribe("x = 1", terms=asked[0])
            await session.subscribe("x = 1", durable="mail", terms=asked[1])
            await session.subscribe("x = 1", durable="work", group={}, terms=asked[2])
            await session.subscribe("x = 1", durable="mail", terms=asked[3])  # it has its subscription
            await session.subscribe("x = 1", durable="work", group={}, terms=asked[3])
            await session.subscribe("x = 1")
        return gate.upstream.terms

    assert run(story()) == [*asked[:3], NO_TERMS]


@pytest.mark.parametrize(
    ("token", "terms", "lacks"),
    [
        ("t", Terms(5, 0.0), None),
        ("t", Terms(6), "no priority above 5"),
        (None, Terms(-3), None),
        (None, Terms(1), "no priority above 0"),
        (None, Terms(0, 9.0), "no promise of a max_delay"),
    ],
)
def test_rights_say_who_may_ask_for_what(gateway, run, token, terms, lacks):
    async def story():
        gate = gateway(access=ACCESS)
        async with await gate.open(token) as session:
            if lacks is None:
                await session.subscribe("TRUE", terms=terms)
            else:
                with pytest.raises(AccessDenied, match=lacks) as refused:
                    await session.subscribe("TRUE", terms=terms)
                assert refused.value.right == "subscribe"
        return gate.upstream.terms, gate.streams

    assert run(story()) == ([terms] if lacks is None else [], 0)


@pytest.mark.parametrize("priority", ["", "high", "1.5", "1_0", " 1", "\u0663", "9" * 5000, "-1000001"])
def test_a_priority_that_is_none_is_an_error(priority):
    with pytest.raises(InputError, match="priority is "):
        Terms.of(priority, None)


@pytest.mark.parametrize("delay", ["", "soon", "nan", "inf", "-1", "1e300"])
def test_a_delay_that_is_none_is_an_error(delay):
    with pytest.raises(InputError, match="max_delay is "):
        Terms.of(None, delay)


def test_a_right_that_is_none_is_an_error():
    for wrong in ({"priority_max": 0.5}, {"priority_max": True}, {"max_delay": 0.5}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            Principal(**wrong).validate()


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("oldest", "oldest"),
        ("2026-11-25T10:00", "2026-11-25T10:00"),
        ('{"faa": 41}', {"faa": 41}),
        ("{}", {}),
    ],
)
def test_a_beginning_is_a_time_or_a_position(given, at):
    assert Terms.of(None, None, given, "flight") == Terms(at=at, last_per="flight")


@pytest.mark.parametrize(
    "at", ["", "soon", "41", '{"faa": -1}', '{"faa": "x"}', '{"faa"', "{" * 9_999, "[1]"]
)
def test_a_beginning_that_is_none_is_an_error(at):
    with pytest.raises(InputError, match="at"):
        Terms.of(None, None, at)


@pytest.mark.parametrize("past", [{"at": "oldest"}, {"last_per": "flight"}])
def test_only_a_durable_name_begins_in_the_past_and_says_so_again(gateway, run, past):
    terms = Terms(**past)

    async def story():
        gate = gateway(access=ACCESS)
        async with await gate.open("t") as session:
            with pytest.raises(InputError, match=f"{next(iter(past))}: only a durable name"):
                await session.subscribe("x = 1", terms=terms)
            for _ in range(2):  # it connects again with the same words
                await session.subscribe("x = 1", durable="mail", terms=terms)
        return gate.upstream.terms

    assert run(story()) == [terms]
