"""The figures and tables of the papers, reproduced."""
