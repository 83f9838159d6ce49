"""Filters in normal form: clauses with one domain per attribute, on which covering, merging and printing work."""
