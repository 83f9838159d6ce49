"""Searches with runs that are made up, so that it is known what guides them and what fails."""

import json
from dataclasses import replace

import pytest
from rayvous.faults.plans.case_files import case_to_dict, load_case, save_case
from rayvous.faults.plans.plans import CrashRendezvous
from rayvous.faults.report import ChaosReport
from rayvous.faults.searching.attempts import Attempt, attempt
from rayvous.faults.searching.corpus import Corpus, name_of, read_corpus, write_corpus
from rayvous.faults.searching.search import search
from rayvous.faults.searching.seen import Moment, Seen
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.protocol.errors import InputError


def draw(seed):
    return draw_sim_case(seed, brokers_max=4, seconds=2.0)


def rendezvous_deaths(case):
    return sum(isinstance(fault, CrashRendezvous) for fault in case.plan.faults)


def made_up(fails_at, told=True):
    """Return what runs cases: each reaches how often the rendezvous point dies, and so many deaths fail."""

    def run(cases):
        for case in cases:
            deaths = rendezvous_deaths(case)
            report = ChaosReport("sim", case.describe(), converged_seconds=1.0, drawn=case)
            report.problems += ["it is dead"] * (deaths >= fails_at)
            points = {f"{deaths} deaths"} if told else set()
            yield Attempt(
                report, Seen(frozenset(points), (Moment(0.5, 0, None, (f"{deaths} deaths",)),), frozenset())
            )

    return run


@pytest.mark.slow
def test_it_climbs_where_what_runs_reach_leads():
    """Drawn cases hardly have twelve deaths of the rendezvous point: steps towards it are kept, and changed further."""
    found = search(draw, runs_max=1_500, run=made_up(12))
    assert found.failed is not None and rendezvous_deaths(found.failed.drawn) >= 12
    assert found.runs < 1_500 and 0 < found.drawn < found.runs
    blind = search(draw, runs_max=found.runs, run=made_up(12, told=False))
    assert blind.failed is None and not blind.corpus.entries, "without anything new nothing is kept"


def test_a_search_repeats_itself_whatever_runs_it():
    def made(run):
        cases = []

        def noted(given):
            cases.extend(given)
            return run(given)

        return search(draw, seed=5, runs_max=40, run=noted), cases

    (found, cases), (again, same) = made(made_up(99)), made(lambda cases: list(made_up(99)(cases)))
    assert cases == same and len(cases) == found.runs == again.runs == 40
    scene = draw(5).plan.heal_seconds
    assert all(case.plan.heal_seconds > scene for case in cases[:8]), (
        "what is drawn has scenes from the first on"
    )
    assert found.corpus.reached == again.corpus.reached
    assert made(made_up(99))[1] == cases


def test_it_ends_in_time_and_needs_an_end():
    assert search(draw, seconds_max=0.0, run=made_up(99)).runs == 0
    for bounds in ({}, {"runs_max": 0}, {"seconds_max": -1.0}):
        with pytest.raises(InputError):
            search(draw, run=made_up(99), **bounds)


def test_an_interrupted_search_has_what_it_found():
    turns = []

    def progress(found):
        turns.append(found.runs)
        if len(turns) == 2:
            raise KeyboardInterrupt

    found = search(draw, runs_max=10_000, run=made_up(99), progress=progress)
    assert found.runs == turns[-1] and found.corpus.entries


def seen(*points):
    return Seen(frozenset(points), (), frozenset())


def test_a_corpus_is_bounded_and_keeps_what_is_rare():
    corpus = Corpus(entries_max=3)
    assert corpus.take(draw(0), seen("often")) and not corpus.take(draw(9), seen("often"))
    for seed in range(1, 4):
        corpus.take(draw(9), seen("often"))
        assert corpus.take(draw(seed), seen("often", f"rare {seed}"))
    assert len(corpus.entries) == 3 and draw(0) not in [entry.case for entry in corpus.entries]
    assert corpus.reached["often"] == 8


def test_a_corpus_in_a_folder(tmp_path):
    folder, corpus = tmp_path / "new" / "cases", Corpus()
    assert read_corpus(folder) == ([], [])
    for seed in (0, 1):
        corpus.take(draw(seed), seen(seed))
    write_corpus(folder, corpus.entries, [])
    (folder / "notes.txt").write_text("mine")
    (folder / "case-damaged.json").write_text(json.dumps(case_to_dict(draw(2)))[:-40])
    (folder / "case-foreign.json").write_text("[1]")
    (folder / "case-large.json").write_text(" " * (1 << 21))
    cases, wrong = read_corpus(folder)
    assert sorted(map(name_of, cases)) == sorted(entry.name for entry in corpus.entries)
    assert len(wrong) == 3 and all("is left out" in sentence for sentence in wrong)
    assert len(read_corpus(folder, entries_max=1)[0]) == 1
    write_corpus(folder, corpus.entries[1:], cases)
    left = sorted(path.name for path in folder.iterdir())
    assert corpus.entries[0].name not in left and {"notes.txt", "case-damaged.json", "case-large.json"} < set(
        left
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it must be a folder"):
        read_corpus(tmp_path / "file")


def test_a_search_begins_with_the_given_cases():
    case = replace(draw(0), plan=replace(draw(0).plan, faults=(CrashRendezvous(0.5),) * 7))
    found = search(draw, runs_max=50, given=[draw(1), case], run=made_up(6))
    assert found.runs == 2 and found.failed.drawn == case


@pytest.mark.slow
def test_a_search_of_right_brokers_finds_nothing(tmp_path):
    found = search(draw, seed=1, runs_max=12)
    assert found.failed is None, (found.failed.problems, found.failed.verdict.examples)
    assert found.growth[-1][1] > found.growth[0][1], "there is always more to reach"
    write_corpus(tmp_path, found.corpus.entries, [])
    entry = found.corpus.entries[-1]
    assert attempt(load_case(tmp_path / entry.name)).seen.points >= set(entry.new)
    save_case(entry.case, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / entry.name).read_text()
