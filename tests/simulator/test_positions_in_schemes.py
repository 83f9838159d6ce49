"""Chaos with late subscribers under every scheme, with and without stores: nothing that had settled reaches them."""

import pytest
from draws import KINDS, slow, thorough
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.routing.schemes.registry import NAMES

SHORT = {"brokers_max": 6, "seconds": 4.0}
WIDE = {"brokers_max": 16, "seconds": 6.0}
SEEDS_THAT_TELL = (0, 9)


def assert_kept(report):
    assert report.holds, str(report)
    fresh = report.verdict.findings["fresh"]
    assert report.case["late"] and fresh.checked and not fresh.violated, "the judge could not say"


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        (scheme, kind)
        if scheme in KINDS and (at + number) % 2 == 0
        else (slow if scheme in KINDS or (at + number) % 2 == 0 else thorough)(scheme, kind)
        for at, scheme in enumerate(NAMES)
        for number, kind in enumerate(("volatile", "stable"))
    ],
)
def test_late_subscribers_get_nothing_that_had_settled(scheme, kind):
    stable = kind == "stable"
    assert_kept(run_chaos(3 + stable, scheme=scheme, stable=stable, **SHORT))


@pytest.mark.parametrize(
    ("scheme", "seed"),
    [
        (slow if scheme in KINDS and seed == 5 else thorough)(scheme, seed)
        for scheme in NAMES
        for seed in (5, 6, 7)
    ],
)
def test_late_subscribers_get_nothing_that_had_settled_more_seeds(scheme, seed):
    assert_kept(run_chaos(seed, scheme=scheme, stable=seed % 2 == 0, **SHORT))


@pytest.mark.parametrize(
    ("scheme", "stable"),
    [
        ("hybrid", True),
        slow("flooding", False),
        slow("lbdd", True),
        *(thorough(*each) for each in (("hybrid", False), ("flooding", True), ("lbdd", False))),
    ],
)
def test_the_draw_sees_subscriptions_that_have_only_ages(scheme, stable, only_ages):
    """A third of the first 16 seeds fail then; without late subscribers none of them does."""
    only_ages()
    for seed in SEEDS_THAT_TELL:
        assert run_chaos(seed, scheme=scheme, stable=stable, **WIDE).verdict.findings["fresh"].violated
    assert run_chaos(SEEDS_THAT_TELL[0], scheme=scheme, stable=stable, late=False, **WIDE).holds
