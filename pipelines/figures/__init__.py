"""The figures of a run: pure functions from DataFrames to DataFrames, at its end or while it is in progress."""
