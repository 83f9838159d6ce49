"""Chaos on Ray."""
