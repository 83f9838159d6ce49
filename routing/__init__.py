"""Whether an event goes where: filters and their language, covering, matching, tables, overlays, routing schemes."""
