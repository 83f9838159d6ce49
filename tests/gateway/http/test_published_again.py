"""A request repeated because its answer was lost; its key is a header, or the source and id of a CloudEvent.

Reference: draft-ietf-httpapi-idempotency-key-header, 2; CloudEvents 1.0, "id"; docs/gateway.md.
"""

from __future__ import annotations

import json

import pytest

EVENT = {"specversion": "1.0", "id": "17", "source": "/jfk", "type": "delay", "data": {"n": 1}}
JSON, CLOUD = {"content-type": "application/json"}, {"content-type": "application/cloudevents+json"}


def post(site, token, events, headers, query=None):
    return site.ask("POST", "/events", json.dumps(events).encode(), token=token, headers=headers, query=query)


def test_a_request_with_the_same_key_is_published_once(web, run, tokens):
    async def story():
        site, alice = web(), tokens["alice"]
        quoted, plain = JSON | {"idempotency-key": '"k"'}, JSON | {"idempotency-key": "k"}
        first = await post(site, alice, [{"n": 1}], quoted)
        again = await post(site, alice, [{"n": 1}], plain)
        other = await post(site, alice, [{"n": 2}], plain)
        return site, first, again, other

    site, first, again, other = run(story())
    assert (first.status, first.json()) == (202, {"publisher": "alice", "first": 1, "last": 1})
    assert (again.status, again.json()) == (
        202,
        {"publisher": "alice", "first": 1, "last": 1, "repeated": True},
    )
    assert (other.status, other.json()["error"]) == (422, "KeyReused")
    assert site.gateway.upstream.last == {"alice": 1}


def test_a_cloud_event_is_known_by_its_source_and_id_where_that_is_asked_for(web, run, tokens):
    async def story():
        site, alice = web(), tokens["alice"]
        once = {"once": "true"}
        answers = [await post(site, alice, EVENT, CLOUD, once) for _ in range(2)]
        answers.append(await post(site, alice, EVENT | {"id": "18"}, CLOUD, once))
        answers.append(await post(site, alice, EVENT, CLOUD))
        binary = {"content-type": "application/json"} | {
            f"ce-{name}": value for name, value in EVENT.items() if name != "data"
        }
        answers.append(
            await site.ask("POST", "/events", b'{"n": 1}', token=alice, headers=binary, query=once)
        )
        return [(each.status, each.json().get("first"), each.json().get("repeated")) for each in answers]

    *said, binary = run(story())
    assert said == [(202, 1, None), (202, 1, True), (202, 2, None), (202, 3, None)]
    assert binary[0] == 422, "its data has a type there, which is an attribute"


@pytest.mark.parametrize(
    ("events", "headers", "said"),
    [
        ([{"n": 1}], JSON, "once: is for one CloudEvent"),
        (EVENT, CLOUD | {"idempotency-key": "k"}, "once: the request has an Idempotency-Key, too"),
    ],
)
def test_a_name_that_cannot_be_is_refused(web, run, tokens, events, headers, said):
    answer = run(post(web(), tokens["alice"], events, headers, {"once": "true"}))
    assert answer.status == 400 and said in answer.json()["detail"]


def test_what_is_under_way_is_to_be_asked_again(web, run, tokens):
    async def story():
        site, headers = web(), JSON | {"idempotency-key": "k"}
        site.gateway.upstream.broken = True
        gone = await post(site, tokens["alice"], [{"n": 1}], headers)
        site.gateway.upstream.broken = False
        return gone, await post(site, tokens["alice"], [{"n": 1}], headers)

    gone, again = run(story())
    assert gone.status == 503
    assert (again.status, again.headers["retry-after"], again.json()["error"]) == (
        409,
        "1",
        "PublicationUnderWay",
    )


def test_over_a_websocket_the_key_is_a_member(web, run, tokens):
    async def story():
        site = web()
        async with site.socket(tokens["alice"]) as wire:
            told = []
            for _ in range(2):
                await wire.ask(type="publish", events=[{"n": 1}], key="k", ref=1)
                told.append(await wire.told())
        return told

    first, again = run(story())
    assert first == {"type": "accepted", "publisher": "alice", "first": 1, "last": 1, "ref": 1}
    assert again == first | {"repeated": True}
