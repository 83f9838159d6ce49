"""The notebooks that need Spark run from top to bottom, on that of the tests; what they show is asserted in them."""


def test_a_notebook_runs(notebook, spark):
    """Figures that take longer than seconds are made as their preset `small` makes them."""
    assert notebook(PRESET="small")
