"""Samples of events, and what is charged by them, beside a count event by event.

Reference: paper 3, sections 1 and 4.2; docs/decisions/0177-demand-is-sampled.md.
"""

from fractions import Fraction
from math import ceil, comb
from random import Random

import pytest
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.books import Books
from rayvous.admission.sampling import (
    BETWEEN,
    MARGIN,
    SAMPLE,
    SAMPLE_BYTES_MAX,
    TOLD_FIRST,
    TOLD_OF,
    UNSEEN,
    Sampler,
)
from rayvous.protocol.batch import batch_of
from rayvous.protocol.messages.admission import MICRO, Capacity
from rayvous.routing.filters.filter import Filter, to_filter

ALL = to_filter("TRUE")


def events(values):
    return batch_of([{"x": value} for value in values])


def values(batch):
    return [event["x"] for event in batch.events()]


def test_the_first_events_are_all_in_the_sample():
    sampler = Sampler(ALL)
    sampler.saw(events(range(50)))
    sampler.saw(events(range(50, SAMPLE)))
    assert [values(event)[0] for event in sampler.snapshot()[1]] == list(range(SAMPLE))


def test_later_the_sample_is_of_the_last_events_whatever_the_batches():
    one, many = Sampler(ALL), Sampler(ALL)
    one.saw(events(range(5000)))
    for first in range(0, 5000, 100):
        many.saw(events(range(first, first + 100)))
    assert values(one.sample) == values(many.sample)
    kept = sorted(values(one.sample))
    assert len(set(kept)) == SAMPLE and 4200 < sum(kept) / SAMPLE < 4800, "of the last five hundred or so"


@pytest.mark.parametrize("size", [1, 7, 500])
def test_a_sample_is_told_so_seldom_that_it_costs_a_fifteenth_of_what_is_published_and_then_a_fiftieth(
    size: int,
) -> None:
    """What is told over each link that the advertisement passes, beside what was published until then."""
    sampler, told = Sampler(ALL), 0
    times: list[int] = []
    for first in range(0, 2540 + 2 * BETWEEN, size):
        if sampler.saw(events(range(first, first + size))):
            times.append(sampler.seen)
            told += len(sampler.sample)
        assert told <= 8 + min(sampler.seen, 2540) / 15 + max(0, sampler.seen - 2540) / 50
    if size == 1:
        assert times == [8, 640, 2540, 2540 + BETWEEN, 2540 + 2 * BETWEEN]


@pytest.mark.parametrize("after, size", TOLD_FIRST)
def test_a_sample_goes_on_from_what_is_known_of_it(after: int, size: int) -> None:
    before = Sampler(ALL)
    before.saw(events(range(after)))
    sampler = Sampler(ALL, before.sample)
    assert not sampler.saw(events(range(9000, 9016)))
    assert len(sampler.sample) == size and min(values(sampler.sample)) < 9000


def test_large_events_are_not_told_beyond_a_number_of_bytes():
    sampler = Sampler(ALL)
    sampler.saw(batch_of([{"text": str(number) * (SAMPLE_BYTES_MAX // 4)} for number in range(8)]))
    assert 0 < len(sampler.sample) <= 4 and sampler.sample.nbytes <= SAMPLE_BYTES_MAX


FILTERS = [to_filter(f"x BETWEEN {low} AND {low + wide}") for low in range(8) for wide in (0, 2, 5)]


def reference(
    adverts: dict[str, tuple[Filter, int, int, list[int]]], held: dict[int, list[Filter]]
) -> tuple[int, dict[int, int]]:
    """Return the load of the CPU and of each link in a tree: each event of each sample is followed by hand.

    What the samples themselves cost comes beside it: they are told over every link but the one over which they come.
    """

    def load(to: set[int], *, cpu: bool = False) -> int:
        peak, measured = 0, Fraction(0)
        for item, rate, source, sample in adverts.values():
            own = cpu and source == LOCAL
            meets = [
                other
                for link in to - {source}
                for other in held[link]
                if any(item.matches({"x": x}) and other.matches({"x": x}) for x in range(15))
            ]
            if own or meets:
                peak += rate
                rate = rate * (MARGIN + 1) // MARGIN if sample else rate
                each = rate // (len(sample) + UNSEEN)
                wanted = sum(own or any(other.matches({"x": x}) for other in meets) for x in sample)
                measured += rate - each * (len(sample) - wanted)
        told = sum(rate for _, rate, source, _ in adverts.values() if source not in ((LOCAL,) if cpu else to))
        return min(peak, int(measured)) + ceil(Fraction(told, TOLD_OF))

    return load(set(held), cpu=True), {link: load({link}) for link in held if link != LOCAL}


@pytest.mark.parametrize("seed", range(30))
def test_what_is_charged_is_a_count_of_the_samples_and_at_most_the_peak(seed):
    """Through all changes: samples come and go, filters too, and an advertisement gets another rate or link."""
    rng = Random(seed)
    books = Books(0, Capacity(10**6), "measured")
    links = [LOCAL, *range(1, rng.randint(2, 4))]
    for link in links[1:]:
        books.join(link)
    adverts: dict[str, tuple[Filter, int, int, list[int]]] = {}
    held: dict[int, list[Filter]] = {link: [] for link in links}
    for _ in range(25):
        act, link, item = rng.random(), rng.choice(links), rng.choice(FILTERS)
        if act < 0.3:
            name = f"p{rng.randrange(4)}"
            before = adverts.get(name)
            sample = before[3] if before is not None and before[0] == item else []
            adverts[name] = item, rng.randint(1, 40) * MICRO, link, sample
            books.advertise((name, 1), *adverts[name][:3])
        elif act < 0.4 and adverts:
            name = rng.choice(sorted(adverts))
            del adverts[name]
            books.unadvertise((name, 1))
        elif act < 0.65 and adverts:
            name = rng.choice(sorted(adverts))
            inside = [x for x in range(15) if adverts[name][0].matches({"x": x})]
            sample = [rng.choice(inside) for _ in range(rng.randint(0, 20))]
            adverts[name] = *adverts[name][:3], sample
            books.measure((name, 1), events(sample))
        elif act < 0.9:
            books.hold(item, link, 0)
            held[link] = [*dict.fromkeys([*held[link], item])]
        elif held[link]:
            books.drop(held[link].pop(), link)
        cpu, over = reference(adverts, held)
        reserved = books.reserved()
        assert reserved["cpu", None] == cpu
        assert {link: reserved["bandwidth", link] for link in links[1:]} == over
        books.check()


def test_a_subscription_asks_for_what_the_sample_shows_and_a_third_more_and_is_refused_by_that():
    books = Books(0, Capacity(20), "measured")
    books.join(1)
    books.advertise(("p", 1), to_filter("x >= 0"), 100 * MICRO, 1)
    [unknown] = books.refusals(to_filter("x < 10"), LOCAL)
    assert (unknown.asked, unknown.free) == (100.0, 20.0 - 100 / TOLD_OF)  # whatever is wanted, samples come
    books.measure(("p", 1), events(range(97)))
    assert books.refusals(to_filter("x < 10"), LOCAL) == ()  # 10 + 3 of 100, and a third
    [more] = books.refusals(to_filter("x < 13"), LOCAL)
    assert more.asked == pytest.approx((13 + UNSEEN) * (MARGIN + 1) / MARGIN, abs=1e-3)


def test_what_no_longer_fits_after_a_sample_is_degraded_even_if_others_meet_the_same():
    books = Books(0, Capacity(60), "measured")
    books.join(1)
    books.advertise(("p", 1), to_filter("x >= 0"), 100 * MICRO, 1)
    books.measure(("p", 1), events([1] * 10 + [50] * 10 + [99] * 77))
    for low in (0, 50):
        books.hold(to_filter(f"x BETWEEN {low} AND {low + 9}"), LOCAL, priority=low)
    assert not books.degraded()
    books.measure(("p", 1), events([1] * 30 + [50] * 30 + [99] * 37))
    assert [str(item) for item, _ in books.degraded()] == ["x BETWEEN 0 AND 9"]


def test_an_advertisement_without_a_sample_is_charged_with_its_rate_whatever_others_are_charged_with() -> (
    None
):
    books = Books(0, Capacity(10**6), "measured")
    books.join(1)
    for number, wanted in ((1, "x = 1"), (2, "y = 1")):
        books.advertise(("p", number), to_filter(wanted[0] + " >= 0"), 100 * MICRO, 1)
        books.hold(to_filter(wanted), LOCAL, 0)
    books.measure(("p", 1), events([0] * 97))
    sampled = 100 * (UNSEEN / 100) * (MARGIN + 1) / MARGIN
    assert books.reserved()["cpu", None] / MICRO == pytest.approx(100 + sampled + 200 / TOLD_OF)


def charged(count: int, matching: int) -> float:
    """Return the charge of a filter that matches so many of the events of a sample, as a share of the rate."""
    books = Books(0, Capacity(10**6), "measured")
    books.join(1)
    books.advertise(("p", 1), to_filter("x >= 0"), MICRO, 1)
    books.hold(to_filter("x = 1"), LOCAL, 0)
    books.measure(("p", 1), events([1] * matching + [0] * (count - matching)))
    return books.reserved()["cpu", None] / MICRO - 1 / TOLD_OF  # without what the sample itself costs


@pytest.mark.parametrize("count", [size for _, size in TOLD_FIRST])
def test_the_charge_covers_the_share_of_a_filter_with_a_confidence_of_95_percent_whatever_the_share(
    count: int,
) -> None:
    """Of a sample of events that are alike; exact probabilities of the binomial distribution."""
    charges = [charged(count, matching) for matching in range(count + 1)]
    for percent in range(101):
        share = percent / 100
        too_little = sum(
            comb(count, matching) * share**matching * (1 - share) ** (count - matching)
            for matching, charge in enumerate(charges)
            if charge < share - 1e-6
        )
        assert too_little <= 0.05, (percent, too_little)
