"""What ``rayvous experiment admission-on-ray`` prints and writes, with made-up measurements."""

import json

from rayvous.cli.verbs.experiments import run_admission_on_ray
from rayvous.experiments import admission_on_ray


def row(criterion, discarded):
    return {
        "criterion": criterion, "subscribers": 6, "discarded_in_all_per_second": discarded,
        "discarded_per_second": discarded / 6, "rejected": 0.25, "cpu": 0.04,
        "of_capacity": 0.5, "of_capacity_max": 0.9,
    }  # fmt: skip


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
    run_admission_on_ray(tmp_path, as_json=False)
    printed = capsys.readouterr().out
    assert "[120.5, 80.0]" in printed and "40.0" in printed and "25%" in printed and "holds" in printed
    assert json.loads((tmp_path / "admission_on_ray.json").read_text())["rate"] == 35.1
