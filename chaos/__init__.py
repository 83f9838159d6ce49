"""Chaos, whatever it runs on: cases drawn from a seed, a plan carried out, the story of a run, its report."""
