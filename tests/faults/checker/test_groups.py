"""The conditions of groups: what was told as lost need not be done, and nothing else is excused."""

from rayvous.faults.checker.groups import GroupRecord
from rayvous.protocol.messages.pubsub import Lost


def given(*events: int) -> GroupRecord:
    """Return the record of a group with a key, to which events 1, 2 and 3 of p came, and which gave some of them."""
    record = GroupRecord()
    for number in (1, 2, 3):
        record.came(("p", number), "p")
    for number in events:
        record.gave("a", ("p", number), 1)
        record.acknowledged("a", ("p", number))
    return record


def test_an_event_that_is_not_done_is_accepted_only_if_it_was_told_as_lost() -> None:
    record = given(1, 3)
    order = "in order: a got ('p', 3) before ('p', 2) was done"
    assert record.violations(5) == [order, "complete: ('p', 2) is left"]
    assert record.violations(5, told=[Lost("p", 2, 2)]) == []
    for other in (Lost("q", 2, 2), Lost("p", 1, 1), Lost("p", 3, 9)):
        assert record.violations(5, told=[other]) == record.violations(5)


def test_an_event_that_a_worker_holds_is_not_excused_by_a_loss() -> None:
    record = given()
    record.gave("b", ("p", 2), 1)
    record.gave("a", ("p", 3), 1)
    assert record.violations(5, told=[Lost("p", 1, 3)]) == [
        "in order: a got ('p', 3) before ('p', 2) was done"
    ]


def test_in_a_later_process_what_has_not_come_again_is_before_later_ones_of_its_publisher_only() -> None:
    def later(*came: tuple[str, int], held: bool = False, lost: bool = False) -> list[str]:
        """Return what is said if these come to a later process, and the last of them is given then to worker b."""
        record = GroupRecord()
        record.began()
        for event in (("p", 1), ("q", 1), ("p", 2)):
            record.came(event, "a key")
        record.began()
        if held:
            record.claimed("a", ("p", 1), believed=True)
        if lost:
            record.lost("a", ("p", 1))
        for event in came:
            record.came(event, "a key")
        record.gave("b", came[-1], 1)
        return [each for each in record.violations(5) if not each.startswith("complete")]

    assert later(("q", 1)) == []
    assert later(("p", 2)) == ["in order: b got ('p', 2) before ('p', 1) was done"]
    assert later(("p", 1)) == [], "the rest of its publisher comes later"
    assert later(("p", 1), ("q", 1)) == ["in order: b got ('q', 1) before ('p', 1) was done"]
    assert later(("q", 1), held=True) == ["in order: b got ('q', 1) before ('p', 1) was done"]
    assert later(("q", 1), held=True, lost=True) == []
