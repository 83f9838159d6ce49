"""What the benchmark of many brokers counts as wrong, and what of that its subscribers were told of."""

from types import SimpleNamespace
from typing import Any

from rayvous.benchmarks.scale import judged
from rayvous.protocol.messages.pubsub import Lost


def reader(came: list[tuple[str, int]], losses: tuple[Lost, ...] = ()) -> Any:
    notes = [SimpleNamespace(publisher=name, sequence=number) for name, number in came]
    return SimpleNamespace(notifications=lambda seconds: notes, losses=list(losses))


def test_what_is_missing_twice_or_out_of_order_is_wrong_and_what_was_told_is_known() -> None:
    whole = reader([("p", 1), ("q", 1), ("p", 2), ("p", 3)])
    assert judged([whole], {"p": 3, "q": 1}) == (0, 0)
    assert judged([reader([("p", 2), ("p", 1), ("p", 2), ("p", 3)])], {"p": 3}) == (2, 0), (
        "twice, and backwards"
    )
    told = reader([("p", 5)], (Lost("p", 1, 3), Lost("q", 1, 9)))
    assert judged([whole, told], {"p": 5, "q": 1}) == (2 + 5, 4), (
        "1 to 3 of p and 1 of q were told, 4 of p was not"
    )
