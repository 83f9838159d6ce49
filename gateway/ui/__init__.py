"""The live page of a network."""
