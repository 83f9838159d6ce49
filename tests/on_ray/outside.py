"""The program run by `test_shell`: a client outside Ray that reconnects when its gateway is gone.

``outside.py publish URL TOKEN COUNT`` publishes each event until it is accepted.
``outside.py read URL TOKEN COUNT`` reads a durable subscription until each event has arrived, and writes the
publisher, number and content of each.
"""

import json
import sys
import time

import httpx

PACE_SECONDS = 0.01
AGAIN_SECONDS = 0.1
"""Nobody says when a gateway is there again."""
BOUND_SECONDS = 60.0


def publish(client, count):
    for x in range(count):
        while not _accepted(client, {"outside": x}):
            time.sleep(AGAIN_SECONDS)
        time.sleep(PACE_SECONDS)


def _accepted(client, event):
    try:
        response = client.post("/events", json=event)
    except httpx.TransportError:
        return False
    if response.is_client_error:
        raise SystemExit(response.text)
    return response.is_success


def read(client, count):
    left, last = set(range(count)), None
    while left:
        try:
            for message in _messages(client, last):
                if message.get("event") == "subscribed":
                    _say("subscribed")
                elif message.get("event") == "gap":
                    raise SystemExit(f"lost: {message['data']}")
                if "id" in message:
                    last, note = message["id"], json.loads(message["data"])
                    _say(json.dumps([note["publisher"], note["sequence"], note["event"]]))
                    left.discard(note["event"]["outside"])
                    if not left:
                        return
        except httpx.TransportError:
            pass
        time.sleep(AGAIN_SECONDS)


def _say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _messages(client, last):
    headers = {} if last is None else {"Last-Event-ID": last}
    query = {"selector": "outside >= 0", "durable": "mail"}
    with client.stream("GET", "/subscribe", params=query, headers=headers) as response:
        if response.is_client_error:
            raise SystemExit(response.read().decode())
        message = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                message[name] = value
            else:
                yield message
                message = {}


def main():
    work, url, token, count = sys.argv[1:]
    authorization = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=authorization, timeout=BOUND_SECONDS) as client:
        {"publish": publish, "read": read}[work](client, int(count))


if __name__ == "__main__":
    main()
