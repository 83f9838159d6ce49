"""Chaos tests on real actors: processes are killed and stopped, links cut, clients killed, and the run is judged."""
