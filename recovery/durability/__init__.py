"""Durability: stores and their codec, numbered links and their journal, durable subscribers (paper 4)."""
