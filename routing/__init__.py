"""Routing decisions: filters and their language, covering, matching, tables, overlays and routing schemes."""
