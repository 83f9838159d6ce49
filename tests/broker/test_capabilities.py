"""One table lists what cannot be combined: the code refuses by it, and docs/schemes.md shows it."""

from pathlib import Path

import pytest
from rayvous.broker import HEALING_SCHEMES, MISSING, Broker, check
from rayvous.broker.capabilities import ALL_SCHEMES
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schemes.md"


@pytest.mark.parametrize("name", ALL_SCHEMES)
@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("admission", [False, True])
def test_a_broker_is_made_of_everything_that_no_row_names(
    name: str, recovery: bool, store: bool, admission: bool
) -> None:
    wanted = {"recovery": recovery, "store": store, "admission": admission}
    rows = [
        row for row in MISSING if name in row.schemes and all(wanted.get(feature) for feature in row.features)
    ]

    def make() -> Broker:
        return Broker(
            scheme(name).positions(ClusterTree(2, 2).positions())[0],
            name,
            Recovery() if recovery else None,
            store=MemoryStore() if store else None,
            admission=AdmissionConfig() if admission else None,
        )

    if rows:
        with pytest.raises(InputError, match=rows[0].reason):
            make()
    else:
        make().check()


def test_schemes_that_heal_are_those_that_no_row_refuses() -> None:
    refused = {name for row in MISSING if row.features == {"recovery"} for name in row.schemes}
    assert set(HEALING_SCHEMES) == {name for name in ALL_SCHEMES if name not in refused}


def test_a_refusal_says_what_why_and_who_can() -> None:
    with pytest.raises(
        InputError, match=r"scheme 'mine:Rows' cannot heal: its `claims` do not .*; hybrid, .* can"
    ):
        raise MISSING[0].error("mine:Rows")


@pytest.mark.parametrize("name", ALL_SCHEMES)
def test_every_scheme_of_ours_serves_everything_at_once(name: str) -> None:
    check(name, recovery=True, store=True, admission=True, operations=True, chaos=True, ray=True)


def test_the_page_has_the_rows_of_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("## What does not go together")[1].split("|---|---|---|\n")[1].split("\n\n")[0]
    assert table.splitlines() == [row.line for row in MISSING]
