"""Benchmarks of our speed against its limits and peers. Each prints figures and never fails for being slow."""
