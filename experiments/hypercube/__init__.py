"""Paper 2: what a hypercube of brokers carries, how far events go in it, and what a subscriber that moves saves."""
