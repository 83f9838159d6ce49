"""The notebooks that need Ray run from top to bottom on the tests' Ray; they assert their own results."""


def test_a_notebook_runs(notebook, ray_started):
    assert notebook()
