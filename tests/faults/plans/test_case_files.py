"""Cases as files: what is drawn comes back, and what cannot run is refused with its place."""

import json

import pytest
from rayvous.faults.plans.case_files import case_from_dict, case_to_dict, load_case, save_case
from rayvous.faults.real.run import draw_ray_case
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.errors import ScenarioError

OPTIONS = [
    {},
    {"stable": True, "admission": True, "operations": True},
    {"damage": True, "stable": True},
    {"scheme": "lbdd", "lossless": True},
    {"heals": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "+".join(each) or "plain")
def test_a_case_in_a_file_is_the_case(options, tmp_path):
    for seed in range(3):
        case = draw_sim_case(seed, brokers_max=8, seconds=6.0, **options)
        save_case(case, tmp_path / "case.json")
        assert load_case(tmp_path / "case.json") == case
        if "heals" not in options:
            case = draw_ray_case(seed, links="direct", **options)
            assert case_from_dict(json.loads(json.dumps(case_to_dict(case)))) == case


def test_a_case_from_a_file_is_the_same_run(tmp_path):
    case = draw_sim_case(1, brokers_max=5, seconds=4.0, stable=True)
    save_case(case, tmp_path / "case.json")
    one, other = run_case(case), run_case(load_case(tmp_path / "case.json"))
    assert one.to_dict() == other.to_dict() and one.steps > 100


def test_a_file_is_readable(tmp_path):
    case = draw_sim_case(1, brokers_max=5, seconds=4.0)
    save_case(case, tmp_path / "case.json")
    lines = (tmp_path / "case.json").read_text().splitlines()
    assert lines[1] == ' "rayvous_chaos_case": 1,' and max(map(len, lines)) < 600
    assert sum('"do": "publish"' in line for line in lines) >= len(case.closing)
    assert not any('"selector": ""' in line or '"events": []' in line for line in lines), (
        "what is usual is left out"
    )


CRASH = {"name": "x", "faults": [{"fault": "crash", "at_seconds": 1.0, "broker": 70}], "heal_seconds": 2.0}


def wrong(**changes):
    return case_to_dict(draw_sim_case(3, brokers_max=6, seconds=4.0)) | changes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "mine", "faults": []}, "this is no case of chaos: it has no 'rayvous_chaos_case'"),
        ([], "this is no case of chaos"),
        (wrong(rayvous_chaos_case=9), "rayvous_chaos_case is 9: this version of rayvous reads 1"),
        (wrong(brokers=3), "case: unknown key 'brokers'"),
        ({"rayvous_chaos_case": 1}, "case: 'seed' is missing"),
        (wrong(seed="7"), "case: seed is '7': it must be a whole number"),
        (wrong(opening=[{"at_seconds": -4.0, "do": "sing", "client": "s1"}]), r"opening\[0\]: do is 'sing'"),
        (wrong(opening=[{"do": "cancel", "client": "s1"}]), r"case: opening\[0\]: 'at_seconds' is missing"),
        (
            wrong(closing=[{"at_seconds": 0, "do": "publish", "client": "p1", "broker": 77}]),
            r"closing\[0\]: broker is 77: it must be one of the \d brokers",
        ),
        (
            wrong(opening=[{"at_seconds": -4.0, "do": "subscribe", "client": "s1", "selector": "price >"}]),
            r"opening\[0\]: selector .price >.: .*expected a value",
        ),
        (wrong(plan=CRASH), "no broker 70"),
        (wrong(plan={"name": "x", "faults": [{"fault": "melt", "at_seconds": 1.0}]}), "melt"),
        (wrong(topology={"clusters": 0, "brokers_per_cluster": 1}), "clusters"),
        (wrong(scheme="telepathy"), "telepathy"),
        (wrong(recovery={"heartbeat_seconds": 0.0}), "heartbeat_seconds"),
        (wrong(recovery=None), "nothing would heal"),
        (wrong(known={"after_seconds": float("inf"), "share": 1.0}), "known: after_seconds is inf"),
        (wrong(durable="s1"), "case: durable is 's1': it must be a list"),
        (wrong(adverts=[1]), "case: adverts is \\[1\\]: it must be an object"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_with_its_place(given, words):
    with pytest.raises(ScenarioError, match=words):
        case_from_dict(given)
