"""Channels whose peers have time enough, on a slow machine too; a loop's clock says when it is over."""

import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.channels import channel, handshakes, pool


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (channel, handshakes, pool):
        monkeypatch.setattr(each, "GREETING_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(pool, "OPEN_SECONDS", PATIENCE_SECONDS)
