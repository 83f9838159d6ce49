"""Serve clients outside Ray: access rights, sessions, streams and wire protocols.

Rules
-----
* `core` knows no protocol. HTTP (`http`) and the other protocols are thin hosts over its sessions and
  streams.
* Nothing that comes from outside is unpickled, evaluated, or stored without a limit.
* The modules that decide (`access`, `positions`, `queues`) are pure: they are given the time and do no I/O.
"""
