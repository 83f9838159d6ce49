"""Custom schemes and layers: the examples work with every feature on, and mistakes are detected."""

import subprocess
import sys
from pathlib import Path

import pytest
from draws import slow, thorough
from rayvous.broker import Broker
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Received
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Events
from rayvous.routing.schemes.claims import Membership
from rayvous.routing.schemes.own import own, own_layers
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BOTH = "own_scheme:Row+own_layer:Origins"
EVERYTHING = {"stable": True, "admission": True, "operations": True}


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Put the examples on the import path."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("own_scheme:Row", {}, id="scheme", marks=pytest.mark.slow),
        pytest.param("hybrid+own_layer:Origins", {}, id="layer", marks=pytest.mark.slow),
        pytest.param(BOTH, EVERYTHING, id="both-everything"),
    ],
)
def test_it_heals_keeps_admits_and_is_operated(name, options):
    report = run_chaos(3, brokers_max=8, scheme=name, **options)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    assert report.verdict.notifications_expected > 0


@pytest.mark.parametrize("seed", [slow(0), *map(thorough, range(1, 6))])
def test_many_seeds_with_everything_on(seed):
    report = run_chaos(seed, brokers_max=12, scheme=BOTH, stable=True, admission=True, operations=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.slow
def test_a_scheme_that_forgets_a_side_is_found_out(monkeypatch):
    row = own("own_scheme:Row")
    whole = row._on_events

    def only_to_the_left(self, source, message):
        return [each for each in whole(self, source, message) if getattr(each, "to", -1) < self.me]

    monkeypatch.setattr(row, "_on_events", only_to_the_left)
    assert not all(run_chaos(seed, brokers_max=8, scheme="own_scheme:Row").holds for seed in range(6))


def test_a_layer_that_drops_what_it_should_pass_on_is_found_out(monkeypatch):
    monkeypatch.setattr(own("own_layer:Origins"), "_on_events", lambda self, event: [])
    assert not run_chaos(3, brokers_max=8, scheme="hybrid+own_layer:Origins").holds


def test_the_layer_counts_and_is_put_down_and_made_again():
    place, name = ClusterTree(1, 1).positions()[0], "hierarchical+own_layer:Origins"
    broker = Broker(place, name)
    broker.handle(
        Received("faa", Events(batch_of([{"origin": "JFK"}, {"origin": "LGA"}, {"origin": "JFK"}])))
    )
    assert broker.describe()["events_counted"] == 3 and broker.describe()["origins"] == 2
    again = Broker(place, name)
    again.pipeline.restore(broker.pipeline.snapshot())
    again.check()
    assert again.describe() == broker.describe()


def test_names_mean_what_they_say():
    assert scheme("own_scheme:Row", heals=True) is own("own_scheme:Row")
    assert own_layers("hybrid+merge+own_layer:Origins") == [own("own_layer:Origins")]
    assert scheme("hybrid+own_layer:Origins") is scheme("hybrid")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:Row", "cannot import 'nowhere'"),
        ("own_scheme:Nothing", "no class 'Nothing' in 'own_scheme'"),
        ("own_scheme:np", "no class 'np'"),
        (":Row", "no class 'Row'"),
        ("hybrid+own_layer:Nothing", "no class 'Nothing'"),
        ("own_scheme:Row+merge", "no routing scheme"),
        ("hybrid+turbo+own_layer:Origins", "no routing scheme"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_starts(name, said):
    with pytest.raises(InputError, match=said):
        scheme(name)


def test_a_scheme_whose_membership_is_fixed_is_not_asked_to_heal(monkeypatch):
    monkeypatch.setattr(own("own_scheme:Row"), "membership", Membership.FIXED)
    with pytest.raises(
        InputError, match="scheme 'own_scheme:Row' cannot heal: the `membership` of Row is fixed"
    ):
        run_chaos(0, brokers_max=4, scheme="own_scheme:Row")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "said"),
    [("own_scheme.py", "alice was notified of [('bob', 1)]"), ("own_layer.py", "3 events were counted")],
)
def test_the_examples_run_as_they_are(file, said):
    done = subprocess.run([sys.executable, file], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr
