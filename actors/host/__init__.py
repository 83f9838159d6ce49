"""Ray actors that host brokers: they take in events, carry out effects, and keep queues, sessions and multicast groups."""
