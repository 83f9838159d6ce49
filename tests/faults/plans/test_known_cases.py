"""News of deaths in drawn cases: never, early, late, of some deaths only, and wrong."""

from dataclasses import replace

from rayvous.faults.plans.cases import Case, draw_case
from rayvous.faults.plans.known_cases import with_known
from rayvous.protocol.messages.recovery import Recovery

SEEDS = range(40)


def drawn(seed: int) -> Case:
    return with_known(draw_case(seed, brokers_max=6, recovery=Recovery()))


def test_all_kinds_of_news_are_drawn() -> None:
    known = [case.known for case in map(drawn, SEEDS)]
    told = [each for each in known if each is not None]
    assert 0.5 < len(told) / len(known) < 0.85, "in the others brokers judge silence alone"
    patience = Recovery().suspect_after_seconds
    assert min(each.after_seconds for each in told) < 0.1
    assert max(each.after_seconds for each in told) > patience
    assert any(0.5 < each.after_seconds < patience for each in told)
    assert {each.share for each in told} == {0.5, 1.0}
    rumours = [rumour for each in told for rumour in each.rumours]
    assert {len(each.rumours) for each in told} == {0, 1, 3} and {each.share for each in rumours} == {
        0.5,
        1.0,
    }
    heals = draw_case(0, brokers_max=6).plan.heal_seconds
    assert all(0 <= each.at_seconds < heals and 0 <= each.pick < 1 for each in rumours)


def test_a_seed_has_the_same_news_each_time_and_is_otherwise_as_it_was() -> None:
    for seed in range(5):
        case = drawn(seed)
        assert case == drawn(seed)
        assert replace(case, known=None) == draw_case(seed, brokers_max=6, recovery=Recovery())
        assert ("known" in case.describe()) == (case.known is not None)


def test_brokers_that_do_not_heal_are_told_nothing() -> None:
    case = draw_case(1, brokers_max=6, heals=False)
    assert with_known(case) == case
