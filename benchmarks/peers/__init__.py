"""Rayvous's gateway compared with alternative brokers, each a real server, on the same load in one run.

Rules
-----
* All get the same alerts, the same stream of events for the same time, and the same client: one thread over
  plain sockets that only searches bytes (`swarm`). `wires` has the protocols, `servers` starts the servers.
* Each server evaluates as much of the filter as it can. The client does the rest, as its user would have to.
* The received notifications are compared with the expected ones, event by event and client by client.
* A server that is not installed is left out, and named. A peer that is slow, or loses events, is a result.
"""
