"""Spark sessions, on Ray through RayDP or alone, and telemetry as DataFrames."""
