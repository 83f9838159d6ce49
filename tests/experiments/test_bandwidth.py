"""Payloads over links with a bandwidth, compared with a simple reference that goes slice by slice.

Reference: paper 5, section 4.2.
"""

import random

import pytest
from rayvous.experiments.lbdd.bandwidth import transfer
from rayvous.routing.topologies.lbdd_plan import plan

SLICE = 1_000


def slice_by_slice(source, children, slices, sending, receiving):
    """Return when each node has everything, keeping for each link the time from which it is free."""
    has = {source: [0.0] * slices}
    waiting = [source]
    for node in waiting:
        free, taken = 0.0, dict.fromkeys(children[node], 0.0)
        for number in range(slices):
            for child in children[node]:
                free = max(free, has[node][number]) + sending
                taken[child] = max(free, max(taken[child], free - sending) + receiving)
                has.setdefault(child, []).append(taken[child])
        waiting.extend(children[node])
    return {node: times[-1] for node, times in has.items()}


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_goes_slice_by_slice(seed):
    rng = random.Random(f"bandwidth/{seed}")
    children = plan(0, range(rng.randrange(2, 40))).children
    slices, send, receive = rng.randrange(1, 60), rng.uniform(1e5, 1e7), rng.uniform(1e5, 1e7)
    done = transfer(
        0,
        children,
        nbytes=slices * SLICE,
        slice_bytes=SLICE,
        send_bits_per_second=send,
        receive_bits_per_second=receive,
    )
    reference = slice_by_slice(0, children, slices, SLICE * 8 / send, SLICE * 8 / receive)
    assert done.finished == pytest.approx(reference)
    assert done.seconds == max(done.finished.values())
    assert done.sent == {node: len(below) * slices * SLICE for node, below in children.items()}


def test_slices_that_go_on_at_once_make_a_chain_cost_one_slice_a_hop():
    """In a chain of three every link carries one copy, all of them at once (pipelining)."""
    done = transfer(
        0, {0: (1,), 1: (2,), 2: ()}, nbytes=100 * SLICE, slice_bytes=SLICE, send_bits_per_second=8_000
    )
    assert done.finished == pytest.approx({0: 0.0, 1: 100.0, 2: 101.0})
    assert done.utilisation(0) == pytest.approx(100 / 101)


def test_sending_and_receiving_are_limited_apart():
    """Two children share what their parent can send, but each receives independently."""
    children = {0: (1, 2), 1: (), 2: ()}
    wide = transfer(0, children, nbytes=10 * SLICE, slice_bytes=SLICE, send_bits_per_second=8_000)
    assert wide.finished == pytest.approx({0: 0.0, 1: 19.0, 2: 20.0})
    narrow = transfer(
        0,
        children,
        nbytes=10 * SLICE,
        slice_bytes=SLICE,
        send_bits_per_second=8_000,
        receive_bits_per_second=2_000,
    )
    assert narrow.finished == pytest.approx({0: 0.0, 1: 40.0, 2: 41.0})
