"""Routing schemes side by side, on one load, and as networks grow."""
