"""The Ray actor that carries brokers: events in, effects carried out, queues, sessions, multicast."""
