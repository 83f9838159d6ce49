"""Membership: failure detection, succession of designated brokers, parent search, registries of roots and views."""
