"""One figure of a paper by one call: what is refused before anything starts, and what is shown."""

import pytest
import rayvous as rv
from rayvous.experiments import reproduced
from rayvous.experiments.catalogue import EXPERIMENTS
from rayvous.experiments.hypercube import hops
from rayvous.experiments.statements import Statement

SAID = [
    Statement("p", "it holds", 1, holds=True),
    Statement("p", "a < b", {"a": 2}, holds=False, known="b is <small>"),
    Statement("p", "nobody knows", [3], holds=False),
]


def made(rows=()):
    return reproduced.Reproduced("hypercube-hops", "paper 2, formula (1)", "quick", None, SAID, list(rows))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("figure 4", {}, "no experiment 'figure 4': there are tct"),
        ("tct", {"preset": "huge"}, "huge: it must be small or paper or calibrated or quick"),
        ("tct", {"runs": 0}, "runs is 0"),
        ("tct", {"out_dir": 3}, "out_dir is 3"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(name, options, said, monkeypatch):
    monkeypatch.setattr(reproduced, "local_session", None)
    with pytest.raises(rv.InputError) as error:
        rv.experiment(name, **options)
    assert said in str(error.value)


def test_only_what_nobody_can_explain_fails():
    assert [each.text for each in made().failed] == ["nobody knows"]


def test_it_shows_the_sentences_with_what_was_measured_and_why_they_do_not_hold():
    html = made()._repr_html_()
    assert "1 of 3 sentences hold" in html and "a &lt; b" in html and "b is &lt;small&gt;" in html
    assert "does not hold: nobody knows why" in html


def test_differences_stand_below_their_reasons():
    assert made().differences() == "b is <small>\n  - a < b\n\nnobody knows why\n  - nobody knows"


def test_its_picture_is_that_of_the_experiment():
    rows = [{"sources": hops.PAIRS, "dimensions": many, "hops": many / 2} for many in (1, 2, 3)]
    (axes,) = made(rows).draw().axes
    assert axes.get_xlabel() == "dimensions"


@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if "small" in one.runs.presets])
def test_a_small_preset_is_a_small_part_of_quick(name):
    small, quick = (list(EXPERIMENTS[name].runs.presets[each].points()) for each in ("small", "quick"))
    assert 1 < len(small) <= len(quick) and small != quick
