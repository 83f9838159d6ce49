"""All interleavings of a small tree that heals; and brokers with a rule broken, which are found.

Reference: paper 1, sections 4.1.1, 4.1.2 and 4.2; promise 6.
"""

import pytest
from draws import slow, thorough
from rayvous.faults.model_checking.crash_recovery import COUNT_MAX
from rayvous.faults.model_checking.election import Election, ElectionSetting
from rayvous.faults.model_checking.schedules import judged, load, plain_story, save
from rayvous.faults.model_checking.search import Bounds, search
from rayvous.protocol.errors import InputError
from rayvous.recovery.membership.succession import Succession


@pytest.mark.parametrize(
    "setting",
    [
        ElectionSetting(crashes=0, calm=6),
        slow(ElectionSetting(crashes=0, calm=6, brokers=4, clusters=4)),
        slow(ElectionSetting()),
        thorough(ElectionSetting(clusters=3)),
    ],
    ids=str,
)
def test_no_two_are_designated_in_one_epoch_and_the_end_is_one_tree(setting):
    found = search(Election(setting))
    assert found.violations == () and found.complete and found.ended


@pytest.mark.parametrize(("brokers", "clusters", "depth"), [(3, 1, 20), (4, 2, 16), (5, 1, 16)])
def test_with_a_crash_all_is_kept_up_to_a_depth(brokers, clusters, depth):
    found = search(Election(ElectionSetting(brokers=brokers, clusters=clusters)), Bounds(depth=depth))
    assert found.violations == () and found.depth == depth


def never_takes_over(self):
    return []


def keeps_the_epoch(right):
    def take_over(self):
        self._epoch_seen = self.view.epoch - 1
        return right(self)

    return take_over


@pytest.mark.parametrize(
    ("method", "change", "says"),
    [
        (
            "_take_over",
            keeps_the_epoch(Succession._take_over),
            "epoch 0 of cluster 0 has two designated brokers",
        ),
        slow("_elect", never_takes_over, "cluster 0 has designated brokers []"),
    ],
)
def test_a_broken_rule_is_found_and_its_schedule_repeated(method, change, says, monkeypatch, tmp_path):
    setting = ElectionSetting(calm=10)
    monkeypatch.setattr(Succession, method, change)
    found = search(Election(setting))
    assert says in found.violations[0]
    save(tmp_path / "schedule.json", setting, found.schedule)
    again, actions = load(tmp_path / "schedule.json", "election")
    assert judged(Election(again), actions) == found.violations
    assert any("crashes" in sentence for sentence in plain_story(actions))


def test_a_schedule_of_another_kind_is_refused(tmp_path):
    save(tmp_path / "schedule.json", ElectionSetting(), [])
    with pytest.raises(InputError, match="it is no schedule that `rayvous explore crash` has written"):
        load(tmp_path / "schedule.json", "crash")


@pytest.mark.parametrize(
    "wrong",
    [
        {"brokers": 6},
        {"clusters": 2},
        {"late": -1},
        *({name: COUNT_MAX + 1} for name in ("crashes", "restarts", "late", "faults_until", "calm")),
    ],
)
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(InputError):
        ElectionSetting(**wrong)
