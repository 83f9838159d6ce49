"""How a filter is written: selector text, Python or JSON; all become the same predicate."""
