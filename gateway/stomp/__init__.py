"""STOMP 1.2 at the gateway, the protocol of many JMS brokers' clients in every language, over TCP and WebSocket.

Rules
-----
* `frames`, `content`, `acknowledging`, `gaps` and `session` are pure: bytes, frames and ticks in, frames and
  requests to the core out.
* `connection` and `server` carry out the requests over the gateway's core, and know nothing of brokers.
* docs/stomp.md defines the meaning of headers, and what is not supported.
"""
