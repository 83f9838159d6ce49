"""The Grafana dashboard queries all that brokers export, and nothing else, by name and labels."""

import json
import re
from pathlib import Path

import pytest
import yaml
from rayvous.actors.telemetry.metrics import COUNTERS, GAUGES, LABELS, LATENCY
from rayvous.faults.real.game_day import LABELS as GAME_DAY_LABELS
from rayvous.faults.real.game_day import LASTING_METRIC

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy/grafana/rayvous.json"
EXPORTED = {f"ray_{name}" for name in (*COUNTERS, *GAUGES, f"{LATENCY}_bucket")}


ALERTS = DASHBOARD.with_name("alerts.yaml")


def test_an_alert_asks_for_what_is_exported_and_names_labels_that_are_there():
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]:
        assert set(re.findall(r"\bray_\w+", rule["expr"])) <= EXPORTED
        (grouped,) = re.findall(r"by \(([^)]*)\)", rule["expr"])
        said = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= set(grouped.split(", ")) <= set(LABELS)
        assert {"alert", "for", "labels"} < rule.keys()


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text())


def asked_of(dashboard):
    variables = [
        each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"
    ]
    return [*variables, *(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])]


def test_it_asks_for_every_metric_and_for_no_other(dashboard):
    asked = {name for text in asked_of(dashboard) for name in re.findall(r"\bray_\w+", text)}
    assert asked == EXPORTED


def test_it_uses_labels_that_are_there(dashboard):
    for text in asked_of(dashboard):
        grouped = [label for found in re.findall(r"by \(([^)]*)\)", text) for label in found.split(", ")]
        matched = re.findall(r"(\w+)\s*=~", text)
        assert {*grouped, *matched} <= {*LABELS, "le"}, text
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            grouped = re.search(r"by \(([^)]*)\)", target["expr"])
            assert shown <= (set(grouped[1].split(", ")) if grouped else set(LABELS)), panel["title"]


def test_it_notes_the_faults_of_a_game_day_while_they_last(dashboard):
    (note,) = dashboard["annotations"]["list"]
    assert re.findall(r"\bray_\w+", note["expr"]) == [f"ray_{LASTING_METRIC}"] and note["enable"]
    shown = {note["tagKeys"], *re.findall(r"{{(\w+)}}", note["titleFormat"] + note["textFormat"])}
    assert shown == set(GAME_DAY_LABELS)


def test_only_what_grows_is_taken_as_a_rate(dashboard):
    for text in asked_of(dashboard):
        for name in re.findall(r"(?:rate|increase)\((ray_\w+)", text):
            assert name.endswith(("_total", "_bucket")), name
        for name in re.findall(r"(?<!rate\()(?<!increase\()\b(ray_\w+_total)", text):
            raise AssertionError(f"{name} only grows: take its rate")


def test_panels_have_their_own_place(dashboard):
    taken = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
        assert panel["description"].endswith(".")
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
