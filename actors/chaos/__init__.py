"""Chaos on real actors: processes killed and stopped, links cut, clients that die, and the run judged."""
