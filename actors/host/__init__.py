"""Ray actors that host brokers: events in, effects carried out, queues, sessions, multicast groups."""
