"""Telemetry of a network: the tables, and the recorder with which a host fills them."""
