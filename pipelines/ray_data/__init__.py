"""Events to and from Ray Data: `reading` makes datasets of what arrives, `writing` publishes the rows of a dataset."""
