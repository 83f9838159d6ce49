"""The vocabulary: ids, values, batches, messages that cross the network, effects, errors.

Standard library and numpy only.
"""
