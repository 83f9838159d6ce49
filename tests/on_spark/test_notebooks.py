"""The notebooks that need Spark run from top to bottom on the tests' Spark; they assert their own results."""


def test_a_notebook_runs(notebook, spark_on_ray):
    """Figures that take longer than seconds use their preset `small`."""
    assert notebook(PRESET="small")
