"""Clients outside Ray: what they may ask for, how they are served, and by which protocols.

Rules
-----
* `core` knows no protocol: HTTP (`http`) and others are thin hosts over its sessions and streams.
* Nothing that comes from outside is unpickled, evaluated, or kept without a limit.
* What decides (`access`, `positions`, `queues`) is pure: it is told the time and does no I/O.
"""
