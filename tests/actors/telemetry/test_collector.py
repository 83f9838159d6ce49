"""The collector without Ray: what it keeps, writes, drops and counts, and what it knows after a restart."""

import asyncio
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_SECONDS
from rayvous.actors.telemetry import collector as module
from rayvous.actors.telemetry.accounts import HOSTS_MAX, Accounts, HandOver
from rayvous.actors.telemetry.collector import Collector
from rayvous.actors.telemetry.collector_actor import ARGUMENT_BYTES, CollectorActor, packed_network
from rayvous.actors.telemetry.files import network_of, part_folder, parts, write_part
from rayvous.actors.telemetry.reading import read_parts
from rayvous.actors.telemetry.telemetry import Telemetry
from rayvous.protocol.errors import InputError, StorageFailed
from rayvous.protocol.telemetry.tables import SCHEMAS, TelemetryConfig
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def collector(folder: Path | None = None, clock: Clock | None = None, **config: float) -> Collector:
    settings = TelemetryConfig(folder, **config)
    return Collector("run", settings, put=lambda table: table, clock=clock or Clock())


def numbers(folder: Path, name: str = "deliveries") -> list[float]:
    return read_parts(parts(folder, name, "run").values(), name)["time_seconds"].to_pylist()


def in_memory(held: Collector, name: str = "deliveries") -> list[float]:
    return [at for chunk in held.hold().chunks[name] for at in chunk.ref["time_seconds"].to_pylist()]


def test_what_is_handed_over_is_held_once_in_order(make_host):
    held, host = collector(), make_host()
    first = host.flush(deliveries=3, transfers=1)
    for flush in (first, first, host.flush(deliveries=2), first):
        held.take(flush)
    assert in_memory(held) == [0, 1, 2, 3, 4]
    assert in_memory(held, "transfers") == [0]
    assert held.hold().lost == {}


def test_many_small_flushes_become_few_objects(make_host, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_PIECES", 16)
    held, host = collector(), make_host()
    for _ in range(2 * 16):
        held.take(host.flush(deliveries=1))
    assert [chunk.rows for chunk in held.hold().chunks["deliveries"]] == [16] * 2


def test_past_the_bound_the_oldest_rows_go_and_are_counted(make_host):
    held, host = collector(memory_bytes_max=100_000), make_host()
    for _ in range(100):
        held.take(host.flush(deliveries=200))
    kept = in_memory(held)
    lost = held.hold().lost["deliveries"]
    assert kept == list(range(20_000 - len(kept), 20_000))
    assert lost == {"memory": 20_000 - len(kept)}
    assert 1_000 < len(kept) < 4_000  # a row is 28 bytes


def test_rows_for_which_a_buffer_had_no_room_are_counted_once(make_host):
    held, host = collector(), make_host()
    host.dropped = {"notified": 7}
    held.take(host.flush(deliveries=1))
    held.take(host.flush(deliveries=1))
    host.dropped = {"notified": 9, "transfers": 1}
    held.take(host.flush())
    assert held.hold().lost == {"notified": {"buffer": 9}, "transfers": {"buffer": 1}}


def test_without_a_folder_all_is_lost_with_the_collector_and_the_next_one_says_so(make_host):
    hosts = [make_host("a"), make_host("b")]
    for host in hosts:
        host.flush(deliveries=10)
    held = collector()
    held.take(hosts[0].flush(deliveries=1))
    held.take(hosts[1].flush())
    assert held.hold().lost == {"deliveries": {"collector": 20}}
    assert in_memory(held) == [10]


def test_a_file_is_written_when_enough_waits(tmp_path, make_host):
    held, host = collector(tmp_path, roll_bytes=28 * 100), make_host()
    held.take(host.flush(deliveries=99, transfers=1))
    assert numbers(tmp_path) == []
    held.take(host.flush(deliveries=1))
    assert numbers(tmp_path) == list(range(100))
    assert numbers(tmp_path, "transfers") == []


def test_a_file_is_written_when_rows_wait_long_enough(tmp_path, make_host):
    clock = Clock()
    held, host = collector(tmp_path, clock, roll_seconds=8.0), make_host()
    held.take(host.flush(deliveries=2))
    clock.now += 5.9
    held.roll_due()
    assert numbers(tmp_path) == []
    clock.now += 0.1
    held.roll_due()
    assert numbers(tmp_path) == [0, 1]


def test_the_clock_of_the_collector_writes_too(tmp_path, make_host):
    async def run() -> None:
        held = Collector("run", TelemetryConfig(tmp_path, roll_seconds=0.01), put=lambda table: table)
        await held.add(make_host().flush(deliveries=2))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not numbers(tmp_path):
                await asyncio.sleep(0.001)

    asyncio.run(run())
    assert numbers(tmp_path) == [0, 1]


def test_a_part_appears_whole_or_not_at_all(tmp_path, monkeypatch, make_host):
    held, host = collector(tmp_path), make_host()
    held.take(host.flush(deliveries=3))

    def half(table, path, *_, **__):
        Path(path).write_bytes(b"PAR1 and no more")
        assert parts(tmp_path, "deliveries", "run") == {}
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("rayvous.actors.telemetry.files.pq.write_table", half)
        with pytest.raises(StorageFailed, match="no space left"):
            held.hold()
    assert list(part_folder(tmp_path, "deliveries", "run").iterdir()) == []
    held.hold()  # there is room again: what waited is written
    assert numbers(tmp_path) == [0, 1, 2]
    assert held.hold().lost == {}


def test_what_cannot_be_written_has_a_bound_too(tmp_path, monkeypatch, make_host):
    held, host = collector(tmp_path, roll_bytes=28_000, memory_bytes_max=28_100), make_host()
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_part", refuse)
        for _ in range(10):
            held.take(host.flush(deliveries=500))
    held.take(host.flush(transfers=1))
    assert held.hold().lost == {"deliveries": {"memory": 4_000}}
    assert numbers(tmp_path) == list(range(4_000, 5_000))


def refuse(*_, **__):
    raise OSError("the disk is gone")


def test_started_again_it_knows_what_is_in_files_and_what_is_not(tmp_path, make_host):
    host = make_host()
    held = collector(tmp_path)
    held.take(host.flush(deliveries=5))
    held.hold()
    held.take(host.flush(deliveries=4))  # not in a file when it dies
    clock = Clock()
    clock.now = 0.0  # with the clock set back, its parts still come after the others
    again = collector(tmp_path, clock)
    again.take(host.flush(deliveries=3))
    held = again.hold()
    assert numbers(tmp_path) == [0, 1, 2, 3, 4, 9, 10, 11]
    assert held.lost == {"deliveries": {"collector": 4}}
    third = collector(tmp_path)
    assert third.hold().lost == held.lost
    assert read_parts(parts(tmp_path, "lost", "run").values(), "lost")["rows"].to_pylist() == [4]


class Crash(Exception):
    """The collector dies here."""


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hand", "hand", "again", "roll", "roll one", "die", "die writing", "full"]),
        st.integers(0, 1),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(steps=STEPS)
def test_every_row_is_in_a_file_or_counted_as_lost_however_it_dies(steps, tmp_path_factory, make_host):
    """Compared with what two hosts handed over; no row appears twice."""
    folder = tmp_path_factory.mktemp("run")
    hosts = [make_host("a"), make_host("b", first=1_000)]
    last = [host.flush() for host in hosts]
    held = collector(folder)
    for step, which, size in steps:
        if step == "hand":
            last[which] = hosts[which].flush(deliveries=size, transfers=1)
            held.take(last[which])
        elif step == "again":
            held.take(last[which])
        elif step == "roll":
            held.roll(list(SCHEMAS))
        elif step == "roll one":
            held.roll(["deliveries" if which else "transfers"])
        elif step == "full":
            held._config = TelemetryConfig(folder, roll_bytes=1, memory_bytes_max=60)
            held._keep_bound()
            held._config = TelemetryConfig(folder)
        else:
            if step == "die writing":
                die_after(held, size % 3)
            held = collector(folder)
            held.take(last[which])  # it was in flight, and Ray sends it again
    for host in hosts:
        held.take(host.flush())
    holdings = held.hold()
    for name in ("deliveries", "transfers"):
        found = numbers(folder, name)
        assert len(set(found)) == len(found)
        lost = sum(holdings.lost.get(name, {}).values())
        assert len(found) + lost == sum(host.handed[name] for host in hosts), (name, found, holdings.lost)
    table = read_parts(parts(folder, "lost", "run").values(), "lost")
    counted = sum(sum(reasons.values()) for reasons in holdings.lost.values())
    assert sum(table["rows"].to_pylist()) == counted


def die_after(held: Collector, writes: int) -> None:
    """Let it write that many more parts, and then crash."""
    left = [writes]

    def write(*args, **kwargs):
        if not left[0]:
            raise Crash
        left[0] -= 1
        return write_part(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "write_part", write)
        with suppress(Crash):
            held.roll(list(SCHEMAS))


def test_what_is_new_since_an_earlier_look(tmp_path, make_host):
    held, host = collector(tmp_path), make_host()
    held.take(host.flush(deliveries=3))
    first = Telemetry(held.hold())
    held.take(host.flush(deliveries=2))
    host.dropped = {"transfers": 4}
    held.take(host.flush())
    second = Telemetry(held.hold(), first)
    assert first.rows["deliveries"] == 3  # an earlier look does not change
    assert second.to_arrow()["deliveries"]["time_seconds"].to_pylist() == [3, 4]
    assert (first.lost, second.lost) == ({}, {"transfers": {"buffer": 4}})
    nothing = Telemetry(held.hold(), second)
    assert set(nothing.rows.values()) == {0} and nothing.lost == {}
    held = collector(tmp_path)  # died and restarted
    held.take(host.flush(deliveries=1))
    assert Telemetry(held.hold(), second).to_arrow()["deliveries"]["time_seconds"].to_pylist() == [5]
    with pytest.raises(InputError, match="telemetry of run 'run', and this is 'other'"):
        Telemetry(Collector("other", put=list).hold(), second)


def test_hosts_that_were_not_heard_of_for_longest_are_forgotten():
    accounts = Accounts()
    for number in range(HOSTS_MAX + 5):
        accounts.settle(HandOver(str(number), {"deliveries": 1}), "deliveries")
    assert len(accounts._heard) == HOSTS_MAX == len(accounts._missing["deliveries"])
    assert "4" not in accounts._heard and "5" in accounts._heard


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TelemetryConfig(roll_seconds=0), "telemetry roll_seconds is 0: it must be"),
        (TelemetryConfig(memory_bytes_max=True), "memory_bytes_max is True"),
        (TelemetryConfig(folder=3), "telemetry folder is 3: it must be a path"),
        (TelemetryConfig("x", roll_bytes=10, memory_bytes_max=5), "roll_bytes 10 is more than"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(config, message):
    with pytest.raises(InputError, match=message):
        config.validate()


def test_a_flush_of_another_shape_is_refused_whole(make_host):
    held, host = collector(), make_host()
    flush = host.flush(deliveries=1)
    flush.tables[0]["deliveries"]["more"] = np.zeros(1)
    with pytest.raises(InputError, match="unknown: \\['more'\\]"):
        held.take(flush)


def test_the_collector_of_a_large_network_has_only_arguments_that_outlive_the_launcher(tmp_path):
    """Ray stores an argument of 100 KiB or more with the process that gave it, and cannot restart the actor without."""
    network = network_of(ClusterTree(1_000, 10).positions(), "hybrid")
    arguments = packed_network(network)
    assert len(arguments) > 1 and max(map(len, arguments)) <= ARGUMENT_BYTES < 100 * 1024
    actor = CollectorActor("run", TelemetryConfig(tmp_path), *arguments)
    assert asyncio.run(actor.holdings()).network == network
