"""Observation pipelines: telemetry into Spark through RayDP, aggregates, reports, pictures."""
