"""Rayvous's gateway beside the brokers that a user would pick instead, each a real server, on the same load in one run.

Rules
-----
* All get the same alerts, the same stream of events for the same time, and the same client: one thread over plain
  sockets that looks at bytes and nothing else (`swarm`). What a protocol says is in `wires`, how a server is started in
  `servers`.
* As much of the filter as a server can decide is decided there. The rest the client does, as its user would have to.
* What came is compared with what had to come, event by event and client by client.
* A server that is not installed is left out, and named. A peer that is slow, or loses events, is a result.
"""
