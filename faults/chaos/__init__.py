"""Chaos testing, on any host: cases and fault plans drawn from a seed, executed, timed, reported."""
