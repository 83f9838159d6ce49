"""A child of a broker is ready when everything that it wants is installed or withdrawn."""

from rayvous.recovery.membership.unanswered import Unanswered


def test_a_child_is_ready_when_all_that_it_asked_for_is_installed_or_withdrawn():
    book = Unanswered()
    book.asked(5, 1, [("a", 1), ("b", 2), ("b", 3)])
    assert 5 in book and book.ready() == []
    book.installed(5, 1)
    assert book.ready() == []
    book.withdrawn(5, "b")
    assert book.ready() == [5]
    book.forget(5)
    assert 5 not in book and book.ready() == []


def test_one_that_wants_nothing_is_ready_at_once_and_answers_to_strangers_change_nothing():
    book = Unanswered()
    book.asked(5, 1, [])
    book.installed(6, 1)
    book.withdrawn(6, "a")
    assert book.ready() == [5] and 6 not in book


def test_one_that_was_taken_over_is_ready_only_after_it_has_said_what_it_wants():
    book = Unanswered()
    book.taken_over(5, 1, 10.0)
    book.installed(5, 1)
    book.withdrawn(5, "a")
    assert 5 in book and book.ready() == []
    assert book.overdue(9.9) == [] and book.overdue(10.0) == [1]
    book.asked(5, 1, [])
    assert book.ready() == [5] and book.overdue(99.0) == []


def test_a_cluster_that_left_need_not_say_anything():
    book = Unanswered()
    book.taken_over(5, 1, 10.0)
    book.taken_over(6, 2, 10.0)
    book.left(1)
    assert book.overdue(10.0) == [2]
    book.clear()
    assert book.overdue(10.0) == [] and 6 not in book
