"""What ``rayvous chaos`` accepts, draws and summarises; the runs are in tests/simulator and tests/on_ray."""

import json
from pathlib import Path

import pytest
from rayvous.cli.verbs.chaos import run_chaos_seeds
from rayvous.faults.checker.verdict import Verdict
from rayvous.faults.plans.draws import AIMS
from rayvous.faults.plans.plans import Crash, Damage, FaultPlan
from rayvous.faults.plans.stable_cases import with_stores
from rayvous.faults.real import run as on_ray
from rayvous.faults.recovery_times import Recovered
from rayvous.faults.report import ChaosReport
from rayvous.faults.simulated import chaos as simulated
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.protocol.errors import InputError


def pretend(monkeypatch, fails=(), idle=()):
    """Replace chaos on Ray by made-up reports; return the list of what was asked of it.

    Of the seeds that are `idle` nothing is decided.
    """
    asked = []

    def run(seeds, *, progress, **options):
        reports = []
        for seed in seeds:
            asked.append((seed, options))
            case = on_ray.draw_ray_case(
                seed, **{key: value for key, value in options.items() if key != "store_dir"}
            )
            verdict = Verdict(events_published=2, notifications_expected=0 if seed in idle else 2)
            report = ChaosReport("ray", case.describe(), verdict, converged_seconds=0.5)
            report.recoveries = [Recovered("crash_root", 1.0, True, 1.5, 2.0, 0.1)]
            report.timeline = [(1.0, "fault: crash root")]
            if seed in fails:
                report.problems.append("something broke")
            progress(report)
            reports.append(report)
        return reports

    monkeypatch.setattr(on_ray, "run_ray_seeds", run)
    return asked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((0, 1, "moon", None, None), "--on moon: it must be sim or ray"),
        ((0, 0, "sim", None, None), "--seeds must be at least 1"),
        ((-1, 1, "sim", None, None), "--seed at least 0"),
        ((0, 1, "sim", None, 1), "--brokers at least 2 on sim"),
        ((0, 1, "ray", None, 3), "--brokers at least 4 on ray"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        run_chaos_seeds(*options, as_json=True)


def test_state_of_real_processes_is_damaged_too(monkeypatch):
    """All of a seed but the damage is as without it, and brokers compare. Reference: paper 4, section 2."""
    asked = pretend(monkeypatch)
    result = run_chaos_seeds(4, 1, "ray", None, None, damage=True, stable=True, admission=True, as_json=True)
    assert asked[0][1]["damage"] and "--damage" in result["report"]["replay"]
    case, plain = (
        on_ray.draw_ray_case(4, stable=True, admission=True, damage=damage) for damage in (True, False)
    )
    damaged = [fault for fault in case.plan.faults if isinstance(fault, Damage)]
    assert {"positions", "store", "books"} < {fault.what for fault in damaged}
    assert case.recovery.compare_heartbeats and plain.recovery.compare_heartbeats is None
    rest = [fault for fault in case.plan.faults if fault not in damaged]
    assert all(fault in rest for fault in plain.plan.faults) and case.actions == plain.actions


def test_damage_is_drawn_and_said_in_the_command_that_replays(monkeypatch):
    asked = []

    def run(seeds, *, progress, processes, **options):
        asked.append(options)
        report = ChaosReport("sim", draw_sim_case(0, **options).describe(), Verdict(events_published=2))
        report.problems.append("something broke")
        return [report]

    monkeypatch.setattr(simulated, "run_seeds", run)
    result = run_chaos_seeds(0, 1, "sim", None, None, damage=True, as_json=True)
    assert asked[0]["damage"] and "--damage" in result["report"]["replay"]
    assert any(fault["fault"] == "damage" for fault in result["report"]["case"]["plan"]["faults"])


def test_faults_of_connections_are_drawn_with_direct_links_and_replayed(monkeypatch):
    pretend(monkeypatch, fails=[1])
    result = run_chaos_seeds(1, 1, "ray", None, None, links="direct", as_json=True)
    drawn = on_ray.draw_ray_case(1, links="direct").plan.to_dict()
    assert result["report"]["case"]["plan"] == drawn
    assert {"reset_connections", "stop_reading", "refuse_connections"} & {
        fault["fault"] for fault in drawn["faults"]
    }
    assert result["replay"] == ["rayvous chaos --on ray --seed 1 --links direct"]


def test_a_plan_for_another_network_is_refused_before_anything_runs(tmp_path: Path, monkeypatch):
    asked = pretend(monkeypatch)
    plan = tmp_path / "plan.json"
    FaultPlan("far", (Crash(0.5, 50),), 2.0).save(plan)
    with pytest.raises(InputError, match=r"seed 3: .*there is no broker 50"):
        run_chaos_seeds(3, 1, "ray", plan, None, as_json=True)
    assert not asked


def test_seeds_on_ray_are_summed_up(monkeypatch, capsys):
    asked = pretend(monkeypatch, fails=[7])
    result = run_chaos_seeds(6, 3, "ray", None, 6, as_json=True)
    assert [seed for seed, _ in asked] == [6, 7, 8] and asked[0][1] == {"brokers_max": 6}
    assert json.loads(capsys.readouterr().out) == result
    assert (result["on"], result["seeds"], result["held"], result["failed"]) == ("ray", 3, 2, [7])
    assert result["verdict"] == "violated" and result["events_published"] == 6
    assert result["replay"] == ["rayvous chaos --on ray --seed 7 --brokers 6"]
    assert [failure["problems"] for failure in result["failures"]] == [["something broke"]]
    assert result["recovery"]["crash_root"]["structure_median_seconds"] == 1.5


def test_seeds_of_which_nothing_is_decided_do_not_hold(monkeypatch, capsys):
    pretend(monkeypatch, idle=[7, 8])
    result = run_chaos_seeds(6, 3, "ray", None, 6, as_json=False)
    assert (result["held"], result["failed"], result["undecided"]) == (1, [], [7, 8])
    assert result["verdict"] == "undecided"
    assert [report["case"]["seed"] for report in result["undecided_reports"]] == [7, 8]
    assert "failures" not in result
    out, err = capsys.readouterr()
    assert "replay: rayvous chaos --on ray --seed 8 --brokers 6" in out
    assert "undecided: seed 7, 8. Nothing had to come for certain" in out and "seed 7 is undecided" in err
    pretend(monkeypatch, idle=[7], fails=[7, 8])
    assert run_chaos_seeds(6, 3, "ray", None, 6, as_json=True)["failed"] == [7, 8]


def test_one_seed_says_what_was_drawn_first(tmp_path: Path, monkeypatch, capsys):
    pretend(monkeypatch)
    plan = tmp_path / "plan.json"
    FaultPlan("near", (Crash(0.5, 0),), 2.0).save(plan)
    result = run_chaos_seeds(2, 1, "ray", plan, None, as_json=False)
    out = capsys.readouterr().out
    assert out.index("seed 2: drawn") < out.index("fault: crash root") < out.index("verdict: holds")
    assert result["report"]["case"]["plan"]["name"] == "near"
    assert result["report"]["replay"] == f"rayvous chaos --on ray --seed 2 --plan {plan}"


def test_what_retention_could_not_save_is_counted_where_everybody_looks(capsys):
    result = run_chaos_seeds(313, 1, "sim", None, None, stable=True, as_json=False)
    out = capsys.readouterr().out
    told, explained = [line for line in out.splitlines() if "told by name" in line or "explained" in line]
    share = result["loss_shares"]["retention"]
    assert share == result["lost"] / (result["lost"] + result["notifications_expected"])
    assert f"{share:.2%} of all that had to come" in " ".join(out.split("excused by retention")[1].split())
    assert result["lost_by_retention"] == int(told.split()[-1]) > 0 and not result["failed"]
    assert explained.strip().split(maxsplit=4)[-1] == f"{result['lost']} (100%): retention {result['lost']}"
    assert result["losses_explained_share"] == 1.0 and result["unexplained"] == 0


def test_without_limits_is_drawn_and_said_in_the_command_that_replays(monkeypatch):
    asked = pretend(monkeypatch, fails=[4])
    result = run_chaos_seeds(4, 1, "ray", None, None, stable=True, lossless=True, as_json=True)
    assert asked == [(4, {"brokers_max": 9, "stable": True, "lossless": True})]
    assert result["replay"] == ["rayvous chaos --on ray --seed 4 --stable --lossless"]
    assert result["report"]["case"]["lossless"] and draw_sim_case(4, lossless=True).lossless


def test_every_kind_of_killing_is_in_thirty_seeds():
    aims = [AIMS[seed % len(AIMS)] for seed in range(30)]
    assert {aim: aims.count(aim) for aim in AIMS} == dict.fromkeys(AIMS, 5)
    first = [on_ray.draw_ray_case(seed).plan.faults[0] for seed in range(30)]
    kinds = [type(fault).__name__ for fault in first]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "Crash": 15, "CrashCluster": 5, "CrashRendezvous": 5, "CrashRoot": 5,
    }  # fmt: skip


def test_stable_on_ray_draws_what_the_simulator_draws_and_says_how_to_have_it_again(monkeypatch, capsys):
    asked = pretend(monkeypatch, fails=[4])
    result = run_chaos_seeds(4, 1, "ray", None, None, stable=True, as_json=False)
    assert asked == [(4, {"brokers_max": 9, "stable": True})]
    assert result["replay"] == ["rayvous chaos --on ray --seed 4 --stable"]
    assert "'stop'" in capsys.readouterr().out, "deaths of clients are said to be drawn"
    plain, stable = on_ray.draw_ray_case(4), on_ray.draw_ray_case(4, stable=True)
    assert stable == with_stores(plain) and stable.plan == plain.plan


def test_deaths_of_clients_are_drawn_in_thirty_seeds_on_ray():
    cases = [on_ray.draw_ray_case(seed, stable=True) for seed in range(30)]
    deaths = [[action.client[0] for action in case.actions if action.do == "stop"] for case in cases]
    assert sum("s" in each for each in deaths) > 15 and sum("p" in each for each in deaths) > 10
    assert all(case.durable for case in cases)


@pytest.mark.slow
def test_stores_admission_and_operations_go_together(capsys):
    result = run_chaos_seeds(
        3, 1, "sim", None, 8, stable=True, operations=True, admission=True, as_json=False
    )
    out = capsys.readouterr().out
    assert result["verdict"] == "holds" and result["admission"]["admitted"] > 3
    assert result["report"]["replay"].endswith("--brokers 8 --stable --operations --admission")
    assert "operation: " in out and "'stop'" in out


def test_so_they_do_on_ray(monkeypatch):
    asked = pretend(monkeypatch, fails=[4])
    wanted = {"stable": True, "operations": True, "admission": True}
    result = run_chaos_seeds(4, 1, "ray", None, None, **wanted, as_json=True)
    assert asked == [(4, {"brokers_max": 9, **wanted})]
    assert result["replay"] == ["rayvous chaos --on ray --seed 4 --stable --operations --admission"]
    case = on_ray.draw_ray_case(4, **wanted)
    assert case.operations and case.adverts and case.stable and case.plan == on_ray.draw_ray_case(4).plan


def test_stores_go_with_the_options_of_hybrid(monkeypatch):
    asked = pretend(monkeypatch, fails=[4])
    result = run_chaos_seeds(4, 1, "ray", None, None, stable=True, scheme="hybrid+quench", as_json=True)
    assert asked == [(4, {"brokers_max": 9, "scheme": "hybrid+quench", "stable": True})]
    assert result["replay"] == ["rayvous chaos --on ray --seed 4 --scheme hybrid+quench --stable"]


def test_stores_may_be_in_a_database(monkeypatch):
    asked = pretend(monkeypatch)
    address = "postgresql://user@host/db?schema=chaos"  # a path would have lost a slash
    run_chaos_seeds(4, 1, "ray", None, None, stable=True, store_dir=address, as_json=True)
    assert asked[0][1]["store_dir"] == address


@pytest.mark.parametrize(("on", "stable"), [("sim", True), ("ray", False)])
def test_a_folder_for_files_is_for_stores_on_ray(on, stable, tmp_path: Path):
    with pytest.raises(InputError, match="--store-dir"):
        run_chaos_seeds(0, 1, on, None, None, stable=stable, store_dir=tmp_path, as_json=True)


def test_links_are_chosen_and_said_in_the_command_that_replays(monkeypatch):
    asked = pretend(monkeypatch, fails=[4])
    result = run_chaos_seeds(4, 1, "ray", None, None, links="ray", as_json=True)
    assert asked == [(4, {"brokers_max": 9, "links": "ray"})]
    assert result["replay"] == ["rayvous chaos --on ray --seed 4 --links ray"]


@pytest.mark.parametrize(
    ("on", "links", "words"),
    [("sim", "direct", "links are for --on ray"), ("ray", "wire", "--links is 'wire': it must be 'direct'")],
)
def test_links_are_those_of_processes(monkeypatch, on, links, words):
    asked = pretend(monkeypatch)
    with pytest.raises(InputError, match=words):
        run_chaos_seeds(0, 1, on, None, None, links=links, as_json=True)
    assert not asked
