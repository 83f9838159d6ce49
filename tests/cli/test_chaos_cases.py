"""``rayvous chaos --shrink`` and ``--case``: a failing seed becomes a file that replays it."""

import json
from pathlib import Path

import pytest
from rayvous.cli.verbs.chaos import run_chaos_case, run_chaos_seeds
from rayvous.faults.plans.case_files import load_case, save_case
from rayvous.faults.plans.plans import Crash, FaultPlan, Restart
from rayvous.faults.real.on_ray import OnRay
from rayvous.faults.simulated.chaos import draw_sim_case, run_chaos
from rayvous.protocol.errors import InputError
from rayvous.recovery.replay.deduplicator import Deduplicator


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def nothing_is_a_duplicate(self, client, batch, rows, *, accepted):
    return rows


@pytest.mark.slow
def test_a_failing_seed_is_shrunk_and_its_file_replays_it(monkeypatch, capsys):
    FaultPlan("one", (Crash(1.0, 0), Restart(2.0, 0)), 4.0).save("plan.json")
    with monkeypatch.context() as broken:
        broken.setattr(Deduplicator, "admit", nothing_is_a_duplicate)
        result = run_chaos_seeds(4, 1, "sim", Path("plan.json"), 4, shrink_seconds=1e6, as_json=False)
        said = capsys.readouterr()
        shrunk = result["shrunk"]
        assert (
            result["verdict"] == "violated" and shrunk["reason"] == "once is violated" and shrunk["finished"]
        )
        assert shrunk["file"] == "seed-4-shrunk.json"
        assert (
            shrunk["replay"] == "rayvous chaos --on sim --case seed-4-shrunk.json"
            and shrunk["replay"] in said.out
        )
        assert "shrink: " in said.err and "shrink: " not in said.out
        assert shrunk["after"]["actions"] <= 8 < shrunk["before"]["actions"]
        again = run_chaos_case(Path("seed-4-shrunk.json"), "sim", {}, as_json=True)
        assert again["verdict"] == "violated" and again["replay"] == [shrunk["replay"]]
        assert again["report"]["verdict"] == shrunk["report"]["verdict"]
    right = run_chaos_case(Path("seed-4-shrunk.json"), "sim", {}, as_json=True)
    assert right["verdict"] == "holds"


def test_what_holds_is_not_shrunk():
    save_case(draw_sim_case(1, brokers_max=3, seconds=2.0), "case.json")
    with pytest.raises(
        InputError, match=r"--case case\.json holds, so there is nothing to shrink: --seeds N finds"
    ):
        run_chaos_case(Path("case.json"), "sim", {}, shrink_seconds=5.0, as_json=True)
    assert not Path("case-shrunk.json").exists()


@pytest.mark.parametrize(
    ("seeds", "on", "words"),
    [
        (1, "ray", "--shrink --on ray: on ray the same case is never the same run twice"),
        (2, "sim", "a single seed"),
    ],
)
def test_what_cannot_be_shrunk_is_refused_before_it_runs(seeds, on, words):
    with pytest.raises(InputError, match=words):
        run_chaos_seeds(0, seeds, on, None, None, shrink_seconds=5.0, as_json=True)


def test_a_case_has_everything():
    save_case(draw_sim_case(1, brokers_max=3, seconds=2.0, heals=False), "case.json")
    with pytest.raises(
        InputError, match=r"--stable determines what a seed draws, and --case case\.json has everything"
    ):
        run_chaos_case(Path("case.json"), "sim", {"plan": None, "stable": True}, as_json=True)
    with pytest.raises(InputError, match="its brokers do not heal, so it runs --on sim only"):
        run_chaos_case(Path("case.json"), "ray", {}, as_json=True)
    with pytest.raises(InputError, match="--store-dir needs --on ray, and a case with stores"):
        run_chaos_case(Path("case.json"), "sim", {}, store_dir="there", as_json=True)
    with pytest.raises(InputError, match="do not heal"):
        OnRay(load_case("case.json"), print, stable=None, links="direct")


def test_the_command_runs_a_case(rayvous):
    save_case(draw_sim_case(1, brokers_max=3, seconds=2.0), "case.json")
    status, out, _ = rayvous("chaos", "--case", "case.json", "--json")
    report = json.loads(out)["report"]
    drawn = run_chaos(1, brokers_max=3, seconds=2.0).to_dict()
    assert status == 0 and report["replay"] == "rayvous chaos --on sim --case case.json"
    assert report | {"replay": ""} == json.loads(json.dumps(drawn)) | {"replay": ""}
    status, _, err = rayvous("chaos", "--case", "case.json", "--seed", "7")
    assert status == 2 and "--seed determines what a seed draws" in err
