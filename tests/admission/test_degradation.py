"""Who is told of a degraded subscription: once, and once more when it is no longer degraded."""

from types import SimpleNamespace

from rayvous.admission.degradation import Degradation, News
from rayvous.protocol.messages.admission import Refusal
from rayvous.routing.language.questions import to_filter

ITEM = to_filter("x > 0")
LACKS = (Refusal(7, "cpu", 1, 2),)


def books(own=()):
    """Return the books of broker 3, which holds the filter for broker 1 and has passed it to broker 2."""
    return SimpleNamespace(
        broker=3,
        degraded=lambda: {(ITEM, 1): own} if own else {},
        holders=lambda item: [1],
        passes=lambda source, link: source != link,
    )


def test_what_a_neighbour_lacks_is_told_once_and_so_is_that_all_is_well_again():
    degradation = Degradation()
    degradation.heard(ITEM, 2, 7, LACKS)
    assert (
        list(degradation.news(books())) == [News(ITEM, 1, 7, LACKS)] and list(degradation.news(books())) == []
    )
    own = (Refusal(3, "memory", 1, 2),)
    assert list(degradation.news(books(own))) == [News(ITEM, 1, 3, own)]
    degradation.heard(ITEM, 2, 7, ())
    assert list(degradation.news(books())) == [News(ITEM, 1, 7, ()), News(ITEM, 1, 3, ())]
    assert degradation.count() == 0 and list(degradation.news(books())) == []


def test_that_all_is_well_is_no_news_to_who_has_never_heard_of_anything_else():
    """The end of a degradation may be reported repeatedly, or to a broker that was restarted."""
    degradation = Degradation()
    degradation.heard(ITEM, 2, 7, ())
    assert list(degradation.news(books())) == []
    degradation.heard(ITEM, 2, 7, LACKS)
    degradation.heard(ITEM, 2, 9, ())
    assert list(degradation.news(books())) == [News(ITEM, 1, 7, LACKS)]
