"""What paper 5 says of its experiments, against ours.

Reference: paper 5, sections 4.2, 4.3 and theorem 2.
"""

import pytest
from rayvous.experiments import lbdd


def test_the_twelve_computers():
    ours = lbdd.twelve()
    assert ours["buckets"] == [2, 2, 7]
    assert (ours["copies"], ours["out_degree_max"]) == (11, 4)
    assert ours["lbdd_share_of_point_to_point"] == pytest.approx(4 / 11)
    # The paper measured 3,020 s against 7,810 s; the plan says what a perfect network would need.
    for name, measured in lbdd.PAPER_SECONDS.items():
        assert 0.85 * measured < ours[name] < measured


def test_table_1_and_figure_4(tmp_path):
    result = lbdd.run(out=tmp_path)
    rows = result["results"]
    assert [row["subscribers"] for row in rows] == [100, 200, 300, 400, 500]
    for row in rows:
        assert 5 <= row["depth_mean"] <= 10
        assert row["inner_out_degree_mean"] == pytest.approx(2, rel=0.15)
        assert row["copies"] == row["subscribers"]
    depths = [row["depth_mean"] for row in rows]
    assert depths[0] + 1 < depths[-1] <= 10, "one more for each doubling"
    shares = [row["publisher_share"] for row in rows]
    assert shares[-1] < shares[0] / 2, "the publisher's share falls as subscribers come"
    assert max(row["publisher_copies_mean"] for row in rows) < 4, "what it sends stays almost the same"
    assert (tmp_path / "lbdd.png").stat().st_size > 10_000
    assert lbdd.run(sizes=(50,), draws=2) == lbdd.run(sizes=(50,), draws=2)
