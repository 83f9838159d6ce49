"""The machine of a game day, in networks that heal in any way, and beside which anything happens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.faults.game_day.draws import drawn
from rayvous.faults.game_day.machine import (
    CLOSED,
    Check,
    End,
    GameDay,
    Lift,
    Restart,
    Step,
    Strike,
    Target,
    View,
    Whole,
)
from rayvous.faults.game_day.rehearsal import rehearse
from rayvous.faults.game_day.report import GameDayReport
from rayvous.faults.game_day.terms import (
    ABSENT,
    ENDING,
    KINDS,
    ROOT,
    Terms,
    kinds_of,
    require_allowed,
    spared,
)
from rayvous.protocol.errors import AccessDenied, InputError
from rayvous.protocol.gateways import AccessConfig, Principal, digest_of
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.claims import Membership

TERMS = Terms(600.0, 1 / 20, tuple(KINDS), lease_seconds=(1.0, 8.0), heal_seconds=60.0)


def view_of(*clusters: int, together: int = 1, **more: object) -> View:
    """Return a network with a broker in each of these clusters, so many to a process; broker 0 is the root."""
    brokers = range(len(clusters))
    targets = tuple(Target(tuple(brokers[at : at + together])) for at in range(0, len(clusters), together))
    nodes = tuple(Target(tuple(brokers[at::3])) for at in range(min(3, len(clusters))))
    return replace(View(0.0, targets, dict(enumerate(clusters)), root=0, nodes=nodes), **more)


@dataclass
class World:
    """A network in which faults heal after a while, canaries are judged after a while, and others interfere."""

    rng: Random
    view: View
    meddled: bool = True
    heals: bool = True
    now: float = 0.0
    dead: set[int] = field(default_factory=set)
    lasts: Strike | None = None
    lasts_until: float = 0.0
    unwhole_until: float = 0.0
    checked: int = 0
    checking: tuple[int, float] = (0, 0.0)
    strikes: list[Strike] = field(default_factory=list)
    ending: tuple[float, tuple[int, ...]] | None = None  # when a machine ends that was told to
    void: int = 0
    broken: str = ""
    stop: str = ""

    def look(self) -> View:
        if self.ending is not None and self.now >= self.ending[0]:
            self.dead |= set(self.ending[1])
            self.ending = None
        if self.checking[0] > self.checked and self.now >= self.checking[1]:
            self.checked = self.checking[0]
        problems = ("it heals",) if self.now < self.unwhole_until or self.now < self.lasts_until else ()
        living = tuple(one for one in self.view.targets if not self.dead & set(one.brokers))
        clusters = {broker: of for broker, of in self.view.clusters.items() if broker not in self.dead}
        return replace(
            self.view, now=self.now, targets=living, clusters=clusters, dead=tuple(sorted(self.dead)),
            problems=problems, checked=self.checked, broken=self.broken, stop=self.stop,
            void=self.void,
        )  # fmt: skip

    def do(self, step: object) -> None:
        match step:
            case Strike():
                self.strikes.append(step)
                if self.heals and self.meddled and self.rng.random() < 0.1:
                    self.void = step.number
                    return
                self.lasts, self.lasts_until = step, self.now + step.seconds
                if step.kind == "node":  # whole until then
                    self.ending = self.now + self.rng.uniform(0, 90 if self.meddled else 1), step.brokers
                    return
                if step.kind in ENDING:
                    self.dead |= set(step.brokers)
                self.unwhole_until = self.now + (
                    step.seconds + self.rng.uniform(0, 20) if self.heals else 1e9
                )
            case Restart(brokers):
                if self.rng.random() < 0.7:  # else it does not come in time
                    self.dead -= set(brokers)
            case Lift():
                self.lasts_until = self.now
            case Check(number):
                self.checking = number, self.now + self.rng.uniform(0, 5)

    def run(self, day: GameDay, until: float = 2_000.0) -> End:
        while self.now < until:
            seen = self.look()
            for step in day.look(seen):
                if isinstance(step, Strike):
                    self.check(step, seen, day.terms)
                self.do(step)
                if isinstance(step, End):
                    return step
            self.now += self.rng.uniform(0.3, 3.0)
            if self.meddled and self.rng.random() < 0.02:
                self.unwhole_until = max(self.unwhole_until, self.now + self.rng.uniform(0, 30))
        raise AssertionError("it does not end")

    def check(self, strike: Strike, seen: View, terms: Terms) -> None:
        """Assert that a network as seen survives this."""
        assert not seen.problems and not self.dead and self.now >= self.lasts_until, "it is not whole"
        assert self.ending is None, "a machine is about to end"
        assert strike.kind in terms.kinds and not terms.spare & set(strike.brokers)
        assert not (ROOT in terms.spare and seen.root in strike.brokers)
        assert self.now + strike.seconds <= terms.seconds + 1e-6
        left = [broker for one in seen.targets for broker in one.brokers if broker not in strike.brokers]
        assert left
        if terms.keep_members and strike.kind in ABSENT:
            kept = {seen.clusters[broker] for broker in left}
            assert {seen.clusters[broker] for broker in strike.brokers} <= kept
        held = [one.holds for one in seen.hit_by(strike.kind) if one.brokers == strike.brokers]
        assert strike.kind not in ENDING or held == [""]


@given(
    st.integers(0, 10_000), st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 3),
    st.sets(st.sampled_from(sorted(KINDS)), min_size=1), st.sets(st.sampled_from([ROOT, 0, 1, 2])), st.booleans(),
)  # fmt: skip
def test_it_never_asks_for_more_than_a_network_survives_and_ends_healed(
    seed: int, clusters: list[int], together: int, kinds: set[str], spare: set[int | str], keeps: bool
) -> None:
    rng = Random(seed)
    view = view_of(*sorted(clusters), together=together)
    view = replace(
        view, targets=tuple(replace(one, holds="all" if rng.random() < 0.2 else "") for one in view.targets)
    )
    terms = replace(
        TERMS,
        seconds=150.0,
        heal_seconds=300.0,
        kinds=tuple(sorted(kinds)),
        seed=seed,
        spare=frozenset(spare),
        keep_members=keeps,
    )
    world, day = World(rng, view), GameDay(terms)
    refused = day.refusal(view)
    end = world.run(day)
    assert not world.dead and not world.ending and end.healed and end.reason == "the time is over"
    assert not (refused and world.strikes)
    assert day.look(world.look()) == [], "it has ended"


def test_most_of_what_may_be_hit_is_hit_and_each_fault_waits_for_the_one_before() -> None:
    world = World(Random(1), view_of(0, 0, 0, 1, 1, 1), meddled=False)
    world.run(GameDay(replace(TERMS, seconds=1_500.0)))
    assert {strike.kind for strike in world.strikes} == set(KINDS)
    assert {broker for strike in world.strikes for broker in strike.brokers} == set(range(6))
    assert [strike.number for strike in world.strikes] == list(range(1, len(world.strikes) + 1))


def test_a_game_day_is_refused_in_a_network_that_heals_or_can_lose_nobody() -> None:
    refusal = GameDay(replace(TERMS, kinds=("kill",))).refusal
    assert refusal(view_of(0, 0, problems=("broker 1 has closed links",))).startswith(
        "it heals just now: broker 1"
    )
    assert "each cluster keeps a member" in refusal(view_of(0, 1, 2))
    assert refusal(view_of(0)) and not refusal(view_of(0, 0))
    held = view_of(0, 0)
    held = replace(held, targets=tuple(replace(one, holds="what nobody else has") for one in held.targets))
    assert refusal(held).endswith("it has what nobody else has")
    assert GameDay(replace(TERMS, kinds=("kill",), spare=frozenset({ROOT}))).refusal(view_of(0, 0, root=None))


def struck(kind: str) -> tuple[World, GameDay]:
    """Return a game day in the middle of its first fault."""
    world, day = World(Random(3), view_of(0, 0, 1, 1), meddled=False), GameDay(replace(TERMS, kinds=(kind,)))
    while not world.strikes:
        for step in day.look(world.look()):
            world.do(step)
        world.now += 0.5
    return world, day


@pytest.mark.parametrize("how", ["stop", "broken"])
def test_whoever_stops_it_or_a_broken_promise_ends_it_at_once_and_it_heals(how: str) -> None:
    world, day = struck("kill")
    setattr(world, how, "because")
    steps = day.look(world.look())
    assert steps == [Lift(), Restart(world.strikes[0].brokers)]
    end = world.run(day)
    assert end == End("because") and not world.dead and len(world.strikes) == 1


def test_a_network_that_does_not_heal_is_a_broken_promise_and_what_lasts_is_ended() -> None:
    world, day = struck("slow")
    world.unwhole_until = 1e9
    end = world.run(day)
    assert not end.healed and end.reason.startswith("not whole 60 s after slow broker")
    assert world.lasts_until <= world.now


def test_a_network_that_others_keep_from_being_whole_is_waited_for_and_not_blamed() -> None:
    world, day = World(Random(4), view_of(0, 0), meddled=False), GameDay(TERMS)
    while day.phase != "waiting":
        for step in day.look(world.look()):
            world.do(step)
        world.now += 0.5
    world.unwhole_until = 1e9
    end = world.run(day)
    assert end.healed and "by no fault of the game day" in end.reason and not world.strikes
    assert not end.whole, "so nobody says that it holds"


@pytest.mark.parametrize("phase", ["healing", "checking", "waiting", "struck"])
def test_a_network_that_was_closed_ends_it_at_once(phase: str) -> None:
    world, day = World(Random(5), view_of(0, 0), meddled=False), GameDay(TERMS)
    while day.phase != phase:
        for step in day.look(world.look()):
            world.do(step)
        world.now += 0.5
    gone = View(world.now, (), {}, problems=("the rendezvous point is gone",), closed=True)
    assert day.look(gone) == [End(CLOSED, whole=False)] and day.look(gone) == []


def test_the_same_seed_draws_the_same_whatever_happens_and_a_rehearsal_says_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = [drawn(TERMS, number) for number in (1, 2, 3)]
    assert first == [drawn(TERMS, number) for number in (1, 2, 3)]
    assert first != [drawn(replace(TERMS, seed=1), number) for number in (1, 2, 3)]
    planned = rehearse(TERMS, view_of(0, 0, 0, 1, 1, 1))
    again = rehearse(TERMS, view_of(0, 0, 0, 1, 1, 1))
    assert planned == again and 10 < len(planned) < 60
    assert rehearse(replace(TERMS, seconds=1.0), view_of(0, 0)) == []
    long = replace(TERMS, seconds=36_000.0, per_second=1 / 600)
    looks = 0

    def counted(self: GameDay, view: View) -> list[Step]:
        nonlocal looks
        looks += 1
        return look(self, view)

    look = GameDay.look
    monkeypatch.setattr(GameDay, "look", counted)
    assert rehearse(long, view_of(0, 0)) and looks < 5_000, "it does not look where nothing can happen"


def test_terms_that_make_no_sense_are_refused() -> None:
    for wrong, what in (
        ({"seconds": 0.0}, "for 0 s"), ({"seconds": 1e9}, "for 1e"), ({"per_second": 0.0}, "rate"),
        ({"per_second": 1_000.0}, "rate 1000/s: it must be at most 60/min"), ({"per_second": float("nan")}, "rate"),
        ({"kinds": ()}, "kinds: none"), ({"kinds": ("flood",)}, "kinds: there is no 'flood'"), ({"seed": -1}, "seed"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=what):
            replace(TERMS, **wrong).validate()
    assert kinds_of(" kill,, pause,kill") == ("kill", "pause") and spared("root, 3") == {ROOT, 3}
    assert spared(3) == {3}
    for given_ in ("leaf", [1.5], [True], None):
        with pytest.raises(InputError, match="spare"):
            spared(given_)
    recovery = Recovery()
    with pytest.raises(InputError, match="no broker 9"):
        replace(TERMS, spare=frozenset({9})).within(recovery, Membership.CLUSTERS, [0, 1])
    with pytest.raises(InputError, match="spare some by number"):
        replace(TERMS, spare=frozenset({ROOT})).within(recovery, Membership.VIEWS, [0, 1])
    assert not TERMS.within(recovery, Membership.VIEWS, [0]).keep_members


def test_only_who_may_operate_a_network_that_allows_it_has_a_game_day() -> None:
    access = AccessConfig(
        {"olga": Principal((digest_of("o"),), operate=True), "walt": Principal((digest_of("w"),))}
    )
    assert require_allowed("n", chaos=True, access=None, token=None) == ""
    assert require_allowed("n", chaos=True, access=access, token="o") == "olga"
    with pytest.raises(InputError, match="chaos = true"):
        require_allowed("n", chaos=False, access=access, token="o")
    for token, why in ((None, "RAYVOUS_TOKEN"), ("w", "'walt' may not operate"), ("x", "not known")):
        with pytest.raises(AccessDenied, match=why):
            require_allowed("n", chaos=True, access=access, token=token)


def test_a_report_of_no_faults_is_undecided_and_one_that_did_not_heal_violated() -> None:
    report = GameDayReport("n", "hybrid", TERMS)
    assert report.outcome == "undecided"
    report.verdict.notifications_expected = 1
    assert report.outcome == "undecided"
    report.struck(1.0, Strike(1, "kill", (3,), 2.0, 0.1))
    report.whole(4.5)
    assert report.holds and report.by_kind() == {"kill": [4.5]} and report.killed == {3}
    report.ended(5.0, End("not whole, by no fault of the game day", whole=False))
    assert report.outcome == "undecided", "what cannot be seen does not hold"
    report.ended(9.0, End("not whole", healed=False))
    assert report.outcome == "violated" and report.to_dict()["problems"] == ["not whole"]
    assert Whole(report.faults[0].strike, 1.0)
