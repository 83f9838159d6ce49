"""SENDs without common attributes: in one batch, each would have a cell for the attributes of all others."""

import json

from rayvous.gateway.stomp.columns import batch_of_run
from rayvous.gateway.stomp.frames import Decoder, Frame, FrameLimits, encode
from rayvous.gateway.stomp.runs import LEARNT_AFTER, Sends
from rayvous.protocol.gateways import GatewayLimits

SMALL = GatewayLimits(body_bytes_max=200, heartbeat_seconds=60.0)  # 1,600 bytes of columns: 13 by 13 cells


def test_frames_of_stomp_that_differ_too_much_are_published_one_by_one(served):
    async def work(client, core):
        one = await client().connect()
        for part in ({}, {"content-type": "application/json"}):
            one.put(
                *(
                    Frame(
                        "SEND",
                        {"destination": "/events", **part, **({} if part else event)},
                        json.dumps(event).encode(),
                    )
                    for event in ({f"a{n}": str(n)} for n in range(30))
                )
            )
        await one.ask("DISCONNECT")
        assert core.upstream.last == {"alice": 60}
        assert core.upstream.calls > 30

    served(work, SMALL)


def test_a_run_of_json_that_differs_too_much_is_in_forms(monkeypatch):
    def run_of(count):
        headers = {"destination": "/events", "content-type": "application/json"}
        frames = [
            Frame("SEND", headers, json.dumps(event).encode())
            for event in ({f"a{n}": n} for n in range(100, 100 + count + LEARNT_AFTER))
        ]
        *_, run = Decoder(FrameLimits()).feed(b"".join(map(encode, frames)))
        assert isinstance(run, Sends)
        return batch_of_run(run)

    monkeypatch.setattr("rayvous.gateway.stomp.columns.COLUMNS_BYTES_MAX", 1600)
    assert len(run_of(12).columns) > 1
    assert len(run_of(40).columns) == 1
