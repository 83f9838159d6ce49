"""HTTP at the gateway: requests, server-sent events and WebSocket over the core."""
