"""Fault injection on real actors: processes killed and paused, links cut, clients that die, and the run judged."""
