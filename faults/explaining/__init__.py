"""Explains a run: the way of one event to one subscriber, where it ended, and which rule should have carried it on."""
