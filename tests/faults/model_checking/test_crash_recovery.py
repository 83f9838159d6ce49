"""All interleavings of two brokers that crash and recover; and brokers with a rule broken, which are found.

Reference: paper 4, section 3, definition 9 and theorem 1; promises 1, 2, 3 and 7.
"""

import os
import random

import pytest
from draws import seeds, slow, thorough
from rayvous.broker import Broker
from rayvous.faults.model_checking.crash_recovery import COUNT_MAX, CrashRecovery, Setting
from rayvous.faults.model_checking.processes import COUNTERS, Process, digest
from rayvous.faults.model_checking.schedules import follow, judged, load, save, story
from rayvous.faults.model_checking.search import TRAP, Bounds, search
from rayvous.protocol.effects import Persist
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Ack
from rayvous.protocol.scenarios.files import FILE_BYTES_MAX
from rayvous.protocol.snapshots import Part
from rayvous.recovery.durability.numbered_links import CrashRecover
from rayvous.recovery.durability.outgoing import Outgoing


@pytest.mark.parametrize(
    "setting",
    [
        Setting(crashes=0),
        slow(Setting(crashes=0, events=2)),
        slow(Setting(crashes=0, losses=1)),
        thorough(Setting()),  # up to a depth below
        thorough(Setting(crashes=0, cancels=True, unwanted=1)),
    ],
    ids=str,
)
def test_the_brokers_that_ship_keep_definition_9_on_every_path(setting):
    found = search(CrashRecovery(setting))
    assert found.violations == () and found.complete and found.decided > 0
    if setting == Setting(crashes=0):  # the states are the same in every run
        assert (found.states, found.steps, found.depth, found.ended, found.decided) == FAULTLESS


FAULTLESS = 2_961, 8_758, 22, 5, 1
"""States, steps, depth, ends, and ends at which something had to come.

The confirmation comes before, between or after what bob does and alice hears.
"""


@pytest.mark.parametrize("routers", [2, 3])
def test_with_a_crash_all_is_kept_up_to_a_depth(routers):
    found = search(CrashRecovery(Setting(routers=routers)), Bounds(depth=11))
    assert found.violations == () and found.depth == 11 and found.states > 4_000


# Brokers with a rule broken.


class CommitsLate(Broker):
    """Sends before it commits."""

    __slots__ = ()

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        handle = self.handle
        self.handle = lambda event: sorted(handle(event), key=lambda effect: isinstance(effect, Persist))


def changed(part, method, change):
    """Return a class of brokers of which one part has another method; `change` makes it from the right one."""

    def make(monkeypatch):
        monkeypatch.setattr(part, method, change(getattr(part, method)))
        return Broker

    return make


def applies_duplicates(right):
    def on_adv(self, event):
        interface = self._interface(event.source, event.message)
        if self._heard.get(interface, 0) >= event.message.number:
            self._heard[interface] = event.message.before
        return right(self, event)

    return on_adv


def takes_gaps(right):
    def on_adv(self, event):
        interface = self._interface(event.source, event.message)
        if self._heard.get(interface, 0) < event.message.number:
            self._heard[interface] = event.message.before
        return right(self, event)

    return on_adv


def forgets_deliveries(right):
    def restore(self, store):
        right(self, store)
        self._unacknowledged._kept.clear()
        self._unacknowledged._waiting.clear()

    return restore


def forgets_numbers_heard(right):
    def begin(self, *given):
        right(self, *given)
        self._heard = {}

    return begin


def forgets_unacknowledged(right):
    def restore(self, last, frames):
        right(self, last, {})

    return restore


def never_sends_again(right):
    return lambda self, *given: []


def acknowledges_ahead(right):
    return lambda interface, number: right(interface, number + 1)


BROKEN = {
    "commits after it has sent": (lambda monkeypatch: CommitsLate, Setting(), 8),
    "forgets what is not acknowledged": (
        changed(Outgoing, "restore", forgets_unacknowledged), Setting(), 20
    ),
    "acknowledges what it has not": (changed(CrashRecover, "_ack", acknowledges_ahead), Setting(crashes=0), 8),
    "applies duplicates": (changed(CrashRecover, "_on_adv", applies_duplicates), Setting(), 22),
    "takes messages over a gap": (
        changed(CrashRecover, "_on_adv", takes_gaps), Setting(crashes=0, losses=1), 24
    ),
    "forgets deliveries": (changed(CrashRecover, "_restore_queues", forgets_deliveries), Setting(), 24),
    "forgets which numbers it has heard": (changed(CrashRecover, "__init__", forgets_numbers_heard), Setting(), 22),
    "never sends again": (changed(Outgoing, "retransmit", never_sends_again), Setting(crashes=0, losses=1), 24),
}  # fmt: skip
QUICK = "commits after it has sent", "acknowledges what it has not"


@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in BROKEN])
def test_a_broken_rule_is_found_with_a_short_schedule(name, monkeypatch, tmp_path):
    make, setting, longest = BROKEN[name]
    if name == "acknowledges what it has not":
        monkeypatch.setattr(CrashRecover, "_ack", staticmethod(acknowledges_ahead(CrashRecover._ack)))
        broker = Broker
    else:
        broker = make(monkeypatch)
    found = search(CrashRecovery(setting, broker))
    assert found.violations and len(found.schedule) <= longest, (found.violations, found.schedule)
    save(tmp_path / "schedule.json", setting, found.schedule)
    again, actions = load(tmp_path / "schedule.json")
    repeated = CrashRecovery(again, broker)
    assert len(story(repeated, actions)) == len(found.schedule)
    if found.violations != (TRAP,):
        assert judged(repeated, actions) == found.violations
    monkeypatch.undo()
    try:
        right = judged(CrashRecovery(again), actions)
    except InputError:
        return  # the right broker does not get there at all
    assert right == ()


# The states.


def wander(setting, seed, steps):
    """Take random actions; return the system, the state, and each broker's inputs since it last started."""
    rng, system = random.Random(f"wander/{seed}"), CrashRecovery(setting)
    state = system.first()
    for _ in range(steps):
        possible = list(system.actions(state))
        if not possible:
            break
        state = rng.choice(possible)[1]
    return system, state


@pytest.mark.parametrize("seed", seeds(20))
def test_states_that_count_as_one_go_on_equally(seed, monkeypatch):
    """Whatever way led to a state: a machine that came another way handles the next input with the same effects."""
    other_ways = []
    right = Process._step

    def step(self, state, given):
        outcome = right(self, state, given)
        start, inputs, _ = self._runs[state]
        if self.inputs(outcome.state) != (*inputs, given):
            other_ways.append((self, outcome.state, start, (*inputs, given)))
        return outcome

    monkeypatch.setattr(Process, "_step", step)
    for walk in range(6):
        wander(Setting(crashes=2, losses=1, early=1), 100 * seed + walk, 60)
    monkeypatch.undo()
    rng, compared = random.Random(seed), 0
    for process, state, start, inputs in rng.sample(other_ways, min(40, len(other_ways))):
        for (known, _), outcome in list(process._steps.items()):
            if known == state and outcome.effects:
                given = process.inputs(outcome.state)[-1:]
                if not given or outcome.state in process.errors:
                    continue
                one, other = process.machine(state), process.made(start, inputs)
                assert digest(one.handle(given[0])) == digest(other.handle(given[0]))
                assert digest(one.state()) == digest(other.state())
                compared += 1
    assert compared or not other_ways


def test_what_is_only_counted_is_no_state():
    assert sorted(COUNTERS) == ["refused", "resent", "strays"]
    system = CrashRecovery(Setting())
    process, state = system._brokers[0], system.first().brokers[0]
    machine = process.machine(state)
    before = digest(machine.state())
    machine.broker.layer(CrashRecover).refused += 1
    assert digest(machine.state()) == before
    machine.broker.layer(CrashRecover)._heard["link", 1] = 7
    assert digest(machine.state()) != before


def test_equal_values_have_one_digest_whatever_is_one_object_in_them():
    shared = [1, "a"]
    assert digest([shared, shared]) == digest([[1, "a"], [1, "a"]])
    assert digest(Part("set", "", ["b", "a"])) == digest(Part("set", "", ["a", "b"]))
    assert digest(Part("deque", "", ["b", "a"])) != digest(Part("deque", "", ["a", "b"]))
    assert digest(Ack(1)) != digest(Ack(2))


# Schedules.


def test_a_schedule_is_told_in_sentences_and_repeated():
    actions = [
        ("connect", "alice"),
        ("subscribe", "alice"),
        ("arrive", "alice", 1),
        ("arrive", "alice", 1, "crash", 1),
    ]
    lines = story(CrashRecovery(Setting()), actions)
    assert lines[1].startswith("alice subscribes: Adv(alice, 1, x > 0); Registered")
    assert lines[3] == "message 1 (Register) from alice arrives at broker 1, which crashes after 1 effects"
    assert judged(CrashRecovery(Setting()), actions) == ()


def test_an_action_that_is_not_possible_is_named():
    with pytest.raises(InputError, match=r"action 2 of the schedule, \['publish', 'alice'\]"):
        follow(CrashRecovery(Setting()), [("connect", "alice"), ("publish", "alice")])


@pytest.mark.parametrize("content", [b"[]", b"[" * 200_000, b"\xff" * 5_000], ids=["list", "deep", "bytes"])
def test_a_file_that_is_no_schedule_is_refused(content, tmp_path):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.json: it is no schedule") as said:
        load(tmp_path / "x.json")
    assert len(str(said.value)) < 400


def test_a_schedule_that_is_too_large_or_no_regular_file_is_not_read(tmp_path):
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(InputError, match=r"x\.json: 67,108,865 bytes are no schedule"):
        load(tmp_path / "x.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: it is no regular file"):
        load(tmp_path / "pipe")


def test_the_largest_setting_has_a_key(tmp_path):
    most = dict.fromkeys(("crashes", "losses", "early", "events", "unwanted"), COUNT_MAX)
    system = CrashRecovery(Setting(**most))
    assert system.key(system.first())


@pytest.mark.parametrize(
    "wrong",
    [
        {"routers": 4},
        {"crashes": -1},
        {"events": 0},
        *({name: COUNT_MAX + 1} for name in ("crashes", "losses", "early", "events", "unwanted")),
    ],
)
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(InputError):
        Setting(**wrong)
