"""Routing schemes beside each other, on one load, and as networks grow."""
