"""STOMP 1.2 at the gateway: what JMS brokers' clients of every language speak, over TCP and WebSocket.

Rules
-----
* `frames`, `content`, `acknowledging`, `gaps` and `session` are pure: bytes, frames and ticks in,
  frames and wishes out.
* `connection` and `server` carry out the wishes over the gateway's core, and know nothing of brokers.
* What headers mean, and what is left out, is said in docs/stomp.md.
"""
