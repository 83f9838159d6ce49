"""Chaos, whatever it runs on: cases and plans drawn from a seed, carried out, timed, reported."""
