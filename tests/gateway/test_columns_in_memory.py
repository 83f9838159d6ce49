"""Events without common attributes: in columns, each would have a cell for the attributes of all others.

Promise 9: without a limit, a few megabytes of JSON would take gigabytes in a gateway.
"""

import asyncio
from dataclasses import replace

from rayvous.protocol.batch import batch_of, cells_bytes
from rayvous.protocol.gateways import GatewayLimits

SMALL = GatewayLimits(body_bytes_max=200)  # allows 1,600 bytes of columns: 13 by 13 cells


def apart(count, first=0):
    """Return events with one attribute each, all of them different."""
    return [{f"a{n}": n} for n in range(first, first + count)]


def test_columns_have_a_limit_where_one_is_given():
    batch = batch_of(apart(13), bytes_max=1600)
    assert batch.nbytes <= cells_bytes(13, 13) + 13 * 20  # columns; publisher, number and time of each event
    forms = batch_of(apart(14), bytes_max=1600)
    assert len(forms.columns) == 1 and forms.documents() == apart(14)
    assert len(batch_of([{"a": n} for n in range(150)], bytes_max=1600)) == 150


def test_a_request_whose_events_differ_too_much_is_published_in_forms(gateway, run, tokens):
    async def story():
        gate = gateway(SMALL)
        async with await gate.open(tokens["alice"]) as alice:
            return await alice.publish(apart(500)), gate._working_bytes

    assert run(story())[0].last == 500


def test_what_waits_is_published_together_as_far_as_its_columns_may_be(gateway, run, tokens):
    async def story():
        gate = gateway(SMALL)
        network = gate.upstream
        network.open_gate.clear()
        async with await gate.open(tokens["alice"]) as alice:
            asked = [asyncio.ensure_future(alice.publish(apart(6, first))) for first in range(0, 36, 6)]
            for _ in range(50):
                await asyncio.sleep(0)
            network.open_gate.set()
            answers = await asyncio.gather(*asked)
        return network.calls, [answer.first for answer in answers], gate._working_bytes

    # The first is published at once. Then two are in each call: three would have 18 by 18 cells.
    assert run(story()) == (4, [1, 7, 13, 19, 25, 31], 0)


def test_events_that_wait_count_as_bodies_do(gateway, run, tokens):
    async def story():
        gate = gateway(replace(SMALL, bodies_bytes_max=2000))
        gate.upstream.open_gate.clear()
        async with await gate.open(tokens["alice"]) as alice:
            first = asyncio.ensure_future(alice.publish(apart(13)))
            while not gate._working_bytes:
                await asyncio.sleep(0)
            refused = await asyncio.gather(alice.publish(apart(13)), return_exceptions=True)
            gate.upstream.open_gate.set()
            await first
        return refused[0].limit

    assert run(story()) == "bodies_bytes_max"
