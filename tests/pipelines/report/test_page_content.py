"""What a page says of its numbers: which latency is which, and what telemetry lacks."""

import pandas as pd
from rayvous.pipelines.report import page_content


def test_every_percentile_says_where_it_was_measured(figures, told):
    found = {tile.name: tile for tile in page_content.tiles(told(), figures())}
    assert found["p50 at clients"].value != found["p50 at brokers"].value
    assert "subscriber's process" in found["p50 at clients"].note
    assert "broker handed it over" in found["p50 at brokers"].note
    assert "p50 at clients" not in {tile.name for tile in page_content.tiles({}, figures())}
    assert "at clients, above" in page_content.captions(told(), figures())["latency"]


def test_a_picture_that_lacks_events_says_so():
    rates = {"rate_over_time": pd.DataFrame({"events": [4_000, 500]})}
    lacks = page_content.captions({"events_published": 6_000}, rates)["rate"]
    assert "4,500 publications of 6,000 events" in lacks and "broker that died" in lacks
    assert "rate" not in page_content.captions({"events_published": 4_500}, rates)
    assert "rate" not in page_content.captions({}, rates)
