"""Ray actors that host brokers: they handle events, carry out effects, and keep queues, sessions and groups."""
