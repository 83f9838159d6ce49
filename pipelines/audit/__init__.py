"""The conditions of a run, asked by Spark of a trace in files."""
