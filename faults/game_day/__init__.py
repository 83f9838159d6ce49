"""A game day: faults on a running network with its real clients, never more than it promises to survive. Pure."""
