"""Scenarios: a network, a load and a seed as data that every host runs identically; and their file format."""
