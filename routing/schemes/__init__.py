"""Routing schemes: one file per scheme, the registry of their names, and the claims of each."""
