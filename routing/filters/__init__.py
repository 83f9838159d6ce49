"""A filter in normal form: clauses of one domain an attribute, on which covering, merging and printing are decided."""
