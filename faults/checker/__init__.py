"""The checker, outside the system: traces, conditions in temporal logic, verdicts."""
