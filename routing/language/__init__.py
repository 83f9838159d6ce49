"""The languages of filters: selector text, Python and JSON; all produce the same predicates."""
