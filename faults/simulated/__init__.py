"""Chaos in virtual time."""
