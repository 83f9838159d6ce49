"""What ``rayvous experiment admission`` prints and writes; the runs themselves are elsewhere."""

import json

import pytest
from rayvous.cli.app import experiment_admission
from rayvous.cli.verbs import experiments
from rayvous.experiments import admission, admission_on_ray
from rayvous.protocol.errors import InputError

TINY = admission.AdmissionPlan(
    brokers=3, publishers=2, subscribers=(1, 2), cpu=(10.0, 30.0), deadline_seconds=0.5,
    warm_seconds=2.0, measured_seconds=1.0, draws=2,
)  # fmt: skip


def backwards(work, jobs):
    """Do the work as several processes may: what comes last is done first."""
    return ((job, work(job)) for job in reversed(jobs))


def row(criterion, discarded):
    return {
        "criterion": criterion, "subscribers": 6, "discarded_in_all_per_second": discarded,
        "discarded_per_second": discarded / 6, "rejected": 0.25, "cpu": 0.04,
        "of_capacity": 0.5, "of_capacity_max": 0.9,
    }  # fmt: skip


def test_the_simulated_one_prints_every_point_and_writes_pictures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(admission, "preset", lambda name: TINY)
    monkeypatch.setattr("rayvous.actors.tasks.spread", backwards)
    result = experiments.run_admission("paper", tmp_path / "out", as_json=False)
    printed = capsys.readouterr().out
    assert printed.count("none ") >= 2 and "does not hold" in printed and "rejected" in printed
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "admission.json", "figure_9.png", "figure_10.png"
    }  # fmt: skip
    assert result["rows"] == admission.run(TINY)["rows"] and len(result["rows"]) == 12


def test_the_one_on_actors_prints_what_was_measured(tmp_path, capsys, monkeypatch):
    made_up = {
        "capacities": {0: 120.5, 1: 80.0},
        "rate": 35.1,
        "rows": [row("none", 40.0), row("full", 0.0)],
        "statements": [
            {"published": "discards: full <= none", "ours": {"full": 0.0, "none": 40.0}, "holds": True}
        ],
    }
    monkeypatch.setattr(admission_on_ray, "run", lambda plan, progress: dict(made_up))
    monkeypatch.setattr("rayvous.actors.network.network.ensure_ray", lambda: True)
    experiments.run_admission_on_ray(tmp_path, as_json=False)
    printed = capsys.readouterr().out
    assert "[120.5, 80.0]" in printed and "40.0" in printed and "25%" in printed and "holds" in printed
    assert json.loads((tmp_path / "admission_on_ray.json").read_text())["rate"] == 35.1


def test_it_runs_in_the_simulator_or_on_ray():
    with pytest.raises(InputError, match="--on mars: it is sim or ray"):
        experiment_admission(on="mars")
