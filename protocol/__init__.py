"""The vocabulary: ids, values, batches, messages that cross the network, effects, errors.

This package depends on the standard library and numpy only.
"""
