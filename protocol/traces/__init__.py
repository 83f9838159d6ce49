"""The record of a run, as it is written outside the system; `faults.checker` judges it."""
