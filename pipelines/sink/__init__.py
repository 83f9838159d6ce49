"""Sinks: the events of a durable subscription in files. `rolling` decides, `folder` reads and writes, `actor` runs."""
