"""The notebooks that need Ray run from top to bottom, on the Ray of the tests; what they show is asserted in them."""


def test_a_notebook_runs(notebook, ray_started):
    assert notebook()
