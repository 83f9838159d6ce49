"""Fault handling, fault injection, and the checks of what was delivered (papers 1 and 4)."""
