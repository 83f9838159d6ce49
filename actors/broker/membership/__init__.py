"""Membership: which brokers are in the network, and this broker's place, on a tree of clusters or in a view."""
