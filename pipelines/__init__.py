"""What was seen: telemetry into Spark through RayDP, aggregates, reports, pictures."""
