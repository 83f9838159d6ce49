"""Snapshots in stores of an earlier version name classes by the folders in which these stood then."""

import pytest
from rayvous.broker.shaping import Shaping
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.snapshots import MOVED, Part, restore_state, state_of
from rayvous.recovery.durability.identity import Identity
from rayvous.recovery.membership.detector import Detector
from rayvous.recovery.membership.place import Place
from rayvous.recovery.replay.rounds import Rounds

OLD = {
    ".actors.broker.membership.place:Place": Place,
    ".actors.broker.shaping:Shaping": Shaping,
    ".faults.membership.detector:Detector": Detector,
    ".faults.replay.rounds:Rounds": Rounds,
    ".faults.durability.identity:Identity": Identity,
}


class Holder:
    """A machine that holds one part."""

    def __init__(self, part: object = None) -> None:
        self.part = part


@pytest.mark.parametrize("name", OLD)
def test_a_part_that_is_named_by_its_old_folder_is_restored_in_place(name: str) -> None:
    kind = OLD[name]
    part = kind.__new__(kind)
    holder = Holder(part)
    restore_state(holder, {"part": Part("machine", name, {})})
    assert holder.part is part


def test_the_state_of_an_old_part_is_the_state_of_a_new_one() -> None:
    before = Detector(Recovery.for_tests())
    before.expect(7, 1.5)
    plain = state_of(Holder(before))["part"]
    assert plain.name == ".recovery.membership.detector:Detector"
    holder = Holder()
    restore_state(holder, {"part": plain._replace(name=".faults.membership.detector:Detector")})
    assert type(holder.part) is Detector and state_of(holder.part) == state_of(before)


def test_every_old_folder_is_tried() -> None:
    assert all(any(name.startswith(old) for name in OLD) for old, _ in MOVED)


def test_a_folder_that_never_was_names_nothing() -> None:
    with pytest.raises(TypeError, match="not a class"):
        restore_state(Holder(), {"part": Part("machine", ".faults.elsewhere.detector:Detector", {})})
