"""The judge, outside the system: traces, conditions in temporal logic, verdicts."""
