"""Matching of events to filters and links: the index, the routing table, and the covering order of filters."""
