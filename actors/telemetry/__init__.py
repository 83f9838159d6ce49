"""The telemetry of hosts: collected, stored, read."""
