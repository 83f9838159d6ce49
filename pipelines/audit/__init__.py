"""The conditions of a run, checked by Spark over a trace in files."""
